#include "export/trace.h"

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

}  // namespace

Trace trace_evaluation(nn::Module& model, const Shape& sample, DType dtype) {
  const nn::ModeScope evaluation(model, false);
  const AllTrainable all_trainable(model);
  const GradMode recording(true);
  const PrecisionScope no_policy(nullptr);
  Trace trace;
  const Tensor input = Tensor::zeros(sample.inserted(0, 0), {.dtype = dtype});
  trace.input = is_floating(dtype) ? leaf(input) : input;
  Recorder recorder(model);
  trace.output = model(trace.input);
  trace.calls = std::move(recorder.calls);
  return trace;
}

}  // namespace tandem::exporting
