#include "export/trace.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/modes.h"
#include "autograd/observers.h"

namespace tandem::exporting {

namespace {

class Recorder final : public OpObserver, public nn::ModuleObserver {
 public:
  explicit Recorder(nn::Module& model) : observed_ops_(*this), observed_modules_(*this) {
    model.visit([&](const std::string& path, nn::Module& module) { paths_.emplace(&module, path); });
  }

  std::vector<Call> calls;

  void enter(nn::Module& module) override { running_.push_back(&module); }
  void leave(nn::Module&, const Tensor&) override { running_.pop_back(); }

  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    const nn::Module* module = running_.empty() ? nullptr : running_.back();
    calls.push_back({.layer = module ? paths_[module] : "",
                     .description = module ? module->describe() : "",
                     .info = &info,
                     .inputs = {inputs.begin(), inputs.end()},
                     .outputs = {outputs.begin(), outputs.end()}});
  }

 private:
  std::unordered_map<const nn::Module*, std::string> paths_;
  std::vector<const nn::Module*> running_;
  ObserverScope observed_ops_;
  nn::ModuleObserverScope observed_modules_;
};

class AllTrainable {
 public:
  explicit AllTrainable(nn::Module& model) {
    for (Parameter& parameter : model.parameters()) {
      if (parameter.trainable()) continue;
      parameter.set_trainable(true);
      frozen_.push_back(parameter);
    }
  }
  ~AllTrainable() {
    for (Parameter& parameter : frozen_) parameter.set_trainable(false);
  }
  AllTrainable(const AllTrainable&) = delete;
  AllTrainable& operator=(const AllTrainable&) = delete;

 private:
  std::vector<Parameter> frozen_;
};

// An extent of which no parameter extent is a multiple; a recurrent layer then runs this number of empty
// steps.
Index free_extent(nn::Module& model) {
  Index extent = 1009;
  const auto taken = [&] {
    return std::ranges::any_of(model.parameters(), [&](const Parameter& parameter) {
      return std::ranges::any_of(parameter.value().shape(), [&](Index own) { return own % extent == 0; });
    });
  };
  while (taken()) ++extent;
  return extent;
}

Tensor traced(const Shape& shape, DType dtype) {
  const Tensor zeros = Tensor::zeros(shape, {.dtype = dtype});
  return is_floating(dtype) ? leaf(zeros) : zeros;
}

template <class Run>
Trace traced_run(nn::Module& model, Trace trace, Run run) {
  const nn::ModeScope evaluation(model, false);
  const AllTrainable all_trainable(model);
  const GradMode recording(true);
  const PrecisionScope no_policy(nullptr);
  Recorder recorder(model);
  trace.outputs = run(trace.inputs);
  trace.calls = std::move(recorder.calls);
  return trace;
}

}  // namespace

Trace trace_evaluation(nn::Module& model, const Shape& sample, DType dtype, const nn::Forward& run) {
  return traced_run(
      model, {.inputs = {traced(sample.inserted(0, 0), dtype)}, .calls = {}, .outputs = {}},
      [&](const TensorList& inputs) { return run ? run(inputs[0]) : TensorList{model(inputs[0])}; });
}

Trace trace_evaluation(nn::Module& model, const nn::Ports& ports) {
  Trace trace{.inputs = {}, .calls = {}, .outputs = {}, .steps = free_extent(model)};
  for (const nn::Port& port : ports.inputs()) {
    std::vector<Index> extents = port.extents;
    std::ranges::replace(extents, nn::Port::kRows, Index{0});
    std::ranges::replace(extents, nn::Port::kSteps, trace.steps);
    trace.inputs.push_back(traced(Shape(std::span<const Index>(extents)), port.dtype));
  }
  return traced_run(model, std::move(trace),
                    [&](const TensorList& inputs) { return model.all_outputs(inputs); });
}

}  // namespace tandem::exporting
