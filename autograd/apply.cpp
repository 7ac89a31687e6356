#include "autograd/apply.h"

namespace tandem::detail {

Device device_of(const OpInfo& info, std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    if (input.defined()) return input.device();
  }
  throw UserError(info.name, "at least one input must be given");
}

bool any_requires_grad(std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) return true;
  }
  return false;
}

DType prepare_inputs(const OpInfo& info, std::span<Tensor> inputs) {
  const Device device = device_of(info, inputs);
  DType common = DType::boolean;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    if (!input.defined()) continue;
    require(input.device() == device, info.name, "inputs live on different devices: {} and {}",
            to_string(device), to_string(input.device()));
    const Role role = i < info.roles.size() ? info.roles[i] : Role::data;
    if (role == Role::data) common = promote(common, input.dtype());
  }
  PrecisionPolicy* policy = PrecisionScope::active();
  return policy ? policy->prepare(info, inputs, common) : common;
}

void check_version(const OpInfo& info, const Tensor& saved, std::uint64_t version) {
  require(saved.version() == version, info.name,
          "{} saved for backward was written in place since (version {} then, {} now); run backward before "
          "the update",
          to_string(saved), version, saved.version());
}

void fail_released(const OpInfo& info) {
  throw UserError(info.name,
                  "backward ran through this graph already and freed it; pass retain_graph to run it twice");
}

void fail_fused(const OpInfo& info) {
  throw UserError(
      info.name,
      "this fused op has no second derivative; build the graph inside a tandem::HigherOrder scope");
}

}  // namespace tandem::detail
