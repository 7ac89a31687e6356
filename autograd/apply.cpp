#include "autograd/apply.h"

#include <mutex>

#include "autograd/wide_gradients.h"

namespace tandem {

namespace {

// Filled before main, and when libraries are loaded later.
struct AppliedOps {
  std::mutex mutex;
  std::vector<const OpInfo*> infos;
};

AppliedOps& applied() {
  static AppliedOps ops;
  return ops;
}

}  // namespace

std::vector<const OpInfo*> applied_ops() {
  const std::lock_guard lock(applied().mutex);
  return applied().infos;
}

namespace detail {

bool register_op(const OpInfo& info) {
  const std::lock_guard lock(applied().mutex);
  applied().infos.push_back(&info);
  return true;
}

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
  return prepared_by_policy(info, inputs, common);
}

void RecordedNode::keep(std::span<const Tensor> in, std::span<const Tensor> out,
                        std::span<const Tensor> saved) {
  inputs.reserve(in.size());
  for (const Tensor& input : in) {
    inputs.push_back(input.defined() && is_floating(input.dtype()) ? input.edge() : GradientEdge{});
  }
  outputs.reserve(out.size());
  for (const Tensor& output : out) {
    if (!output.defined()) {
      outputs.push_back({});
      continue;
    }
    const bool widens = WideGradients::enabled() && is_16bit(output.dtype());
    outputs.push_back({output.shape(), widens ? DType::f32 : output.dtype(), output.device()});
  }
  kept_.reserve(saved.size());
  for (const Tensor& tensor : saved) {
    Kept kept;
    if (tensor.defined()) {
      kept.version = tensor.version();
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (!tensor.requires_grad() && tensor.is_same(out[i])) kept.output = static_cast<int>(i);
      }
    }
    kept_.push_back(kept);
  }
}

void RecordedNode::check_saved(std::span<const Tensor> saved) const {
  require(!released_, info().name,
          "this graph was freed by an earlier backward; pass retain_graph to run it twice");
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (!saved[i].defined()) continue;
    require(saved[i].version() == kept_[i].version, info().name,
            "{} saved for backward was written in place since (version {} then, {} now); run backward before "
            "the update",
            to_string(saved[i]), kept_[i].version, saved[i].version());
  }
}

void RecordedNode::give_edges(std::span<Tensor> saved) {
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (kept_[i].output >= 0)
      saved[i].set_edge({Ref<RefCounted>(this), static_cast<std::uint32_t>(kept_[i].output)});
  }
}

void put_on_tape(const Ref<Node>& node, std::span<Tensor> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].defined() && is_floating(outputs[i].dtype()))
      outputs[i].set_edge({node, static_cast<std::uint32_t>(i)});
  }
}

void fail_fused(const OpInfo& info) {
  throw UserError(
      info.name,
      "this fused op has no second derivative; build the graph inside a tandem::HigherOrder scope");
}

}  // namespace detail

}  // namespace tandem
