#include "export/trace.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/modes.h"
#include "autograd/observers.h"
#include "core/error.h"

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

// A recurrent layer runs this number of empty steps.
constexpr Index kUsualSteps = 1009;

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

std::vector<FreeExtents> free_extents(nn::Module& model, const nn::Part& part) {
  std::vector<Index> fixed;
  for (const Parameter& parameter : model.parameters())
    fixed.insert(fixed.end(), parameter.value().shape().begin(), parameter.value().shape().end());
  for (const nn::Constant& constant : model.constants())
    fixed.insert(fixed.end(), constant.value.shape().begin(), constant.value.shape().end());
  const auto is_free = [&](Index extent) {  // nor the number of an axis
    return extent > kMaxRank && std::ranges::none_of(fixed, [&](Index own) { return own % extent == 0; });
  };
  const auto has = [&](Index extent) {
    return std::ranges::any_of(part.inputs, [&](const nn::Port& port) {
      return std::ranges::find(port.extents, extent) != port.extents.end();
    });
  };
  const bool has_steps = has(nn::Port::kSteps), has_past = has(nn::Port::kPast);
  const auto longest = part.longest;
  std::vector<FreeExtents> choices;
  for (Index length = std::min(kUsualSteps, longest.value_or(kUsualSteps)); length > 0 && choices.size() < 2;
       length += longest ? -1 : 1) {
    if (!is_free(length)) continue;
    FreeExtents free;
    (has_steps ? free.steps : free.source) = length;
    if (has_past) {
      free.past = choices.empty() ? 2 * length + 1 : choices[0].past + 1;
      while (!is_free(free.past) || !is_free(free.past + length) || free.past % length == 0) ++free.past;
    }
    if (has_steps && has(nn::Port::kSource)) {
      Index source = choices.empty() ? 2 * (free.past + length) + 1 : choices[0].source + 1;
      while (!is_free(source) || free.is_made_of_free(source)) ++source;
      free.source = source;
    }
    choices.push_back(free);
  }
  require(
      !choices.empty(), "onnx",
      "the model reads texts of up to {} tokens; the export needs a length above {} within this limit that "
      "divides no extent of the weights or constants, and there is none; the formats safetensors and npz "
      "contain the weights of any model",
      longest.value_or(0), kMaxRank);
  return choices;
}

Trace trace_evaluation(nn::Module& model, const nn::Part& part, const FreeExtents& free) {
  Trace trace{.inputs = {}, .calls = {}, .outputs = {}, .free = free};
  for (const nn::Port& port : part.inputs) {
    std::vector<Index> extents = port.extents;
    std::ranges::replace(extents, nn::Port::kRows, Index{0});
    std::ranges::replace(extents, nn::Port::kSteps, free.steps);
    std::ranges::replace(extents, nn::Port::kPast, free.past);
    std::ranges::replace(extents, nn::Port::kSource, free.source);
    trace.inputs.push_back(traced(Shape(std::span<const Index>(extents)), port.dtype));
  }
  return traced_run(model, std::move(trace), part.forward);
}

}  // namespace tandem::exporting
