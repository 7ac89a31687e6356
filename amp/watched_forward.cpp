#include "amp/watched_forward.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "amp/op_keys.h"
#include "amp/planned_policy.h"
#include "autograd/apply.h"
#include "autograd/ops/elementwise_ops.h"
#include "autograd/ops/shape_ops.h"
#include "nn/scopes.h"

namespace tandem::amp {

namespace {

bool is_real(const Tensor& tensor) { return tensor.defined() && is_floating(tensor.dtype()); }

std::vector<DType> types_of(std::span<const Tensor> tensors) {
  std::vector<DType> types;
  for (const Tensor& tensor : tensors) types.push_back(tensor.defined() ? tensor.dtype() : DType::f32);
  return types;
}

// Constants of ops on the tape.
std::vector<ScalarOfOp> scalars_of(const Tensor& result) {
  using Use = ScalarOfOp::Use;
  if (const auto* op = op_of<ops::AddScalar>(result)) return {{op->scalars[0], Use::added}};
  if (const auto* op = op_of<ops::ScalarSub>(result)) return {{op->scalars[0], Use::added}};
  if (const auto* op = op_of<ops::Clamp>(result)) return {{op->scalars[0], Use::added}};
  if (const auto* op = op_of<ops::MulScalar>(result)) return {{op->scalars[0], Use::factor}};
  if (const auto* op = op_of<ops::DivScalar>(result)) return {{op->scalars[0], Use::factor}};
  if (const auto* op = op_of<ops::ScalarDiv>(result)) return {{op->scalars[0], Use::factor}};
  if (const auto* op = op_of<ops::LerpScalar>(result)) return {{op->weight, Use::factor}};
  if (const auto* op = op_of<ops::Pad>(result)) return {{op->value, Use::filled}};
  return {};
}

// Records ops in order, except nested ones and casts of the precision policy.
class Watcher final : public OpObserver {
 public:
  Watcher(nn::Module& model, bool keeps_values)
      : keeps_values_(keeps_values), keys_(model), observed_(*this) {}

  std::vector<WatchedOp> ops;

  void before_forward(const OpInfo&, std::span<const Tensor>) override { ++depth_; }
  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    if (--depth_ > 0) return;
    WatchedOp op;
    op.key = keys_.next(info.name);
    op.info = &info;
    op.input_types = types_of(inputs);
    op.output_types = types_of(outputs);
    if (keeps_values_) {
      op.inputs.assign(inputs.begin(), inputs.end());
      op.outputs.assign(outputs.begin(), outputs.end());
      if (!outputs.empty() && outputs.front().defined()) op.scalars = scalars_of(outputs.front());
    }
    ops.push_back(std::move(op));
  }

 private:
  const bool keeps_values_;
  int depth_ = 0;
  OpKeys keys_;
  ObserverScope observed_;
};

std::vector<WatchedOp> watched(nn::Module& model, const std::function<Tensor()>& forward, bool keeps_values) {
  Watcher watcher(model, keeps_values);
  forward();
  return std::move(watcher.ops);
}

template <class T>
ValueRange range_of(std::span<const T> values) {
  ValueRange range{.least = INFINITY};
  for (const T given : values) {
    const float value = static_cast<float>(given), magnitude = std::abs(value);
    if (!(magnitude < INFINITY)) {
      range.finite = false;
      continue;
    }
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
    if (magnitude > 0.0f) range.least = std::min(range.least, magnitude);
    range.integral &= value == std::nearbyint(value);
  }
  if (range.least == INFINITY) range.least = 0.0f;
  return range;
}

ValueRange scan(const Tensor& tensor) {
  if (tensor.dtype() == DType::f32 && tensor.device().type == DeviceType::cpu)
    return range_of(std::span<const float>(tensor.data<float>(), static_cast<std::size_t>(tensor.numel())));
  const std::vector<float> values = tensor.to_vector<float>();
  return range_of(std::span<const float>(values));
}

}  // namespace

WatchedForward::WatchedForward(nn::Module& model, const ResolvedPrecision& resolved,
                               const std::vector<std::function<Tensor()>>& phases) {
  const nn::KeepStatistics keep(model);
  for (const Parameter& parameter : model.parameters())
    parameters_.emplace(name_of(parameter.value()), parameter.name());
  for (std::size_t phase = 0; phase < phases.size(); ++phase) watch(model, resolved, phase, phases[phase]);
}

void WatchedForward::watch(nn::Module& model, const ResolvedPrecision& resolved, std::size_t phase,
                           const std::function<Tensor()>& forward) {
  std::map<std::tuple<std::string, std::string, int>, WatchedOp> typed;
  const auto key_of = [](const WatchedOp& op) { return std::tuple(op.key.path, op.key.op, op.key.call); };
  {
    const Autocast autocast(resolved, phase);
    for (WatchedOp& op : watched(model, forward, false)) typed.emplace(key_of(op), std::move(op));
    autocast.finish();
  }
  const Autocast wide = Autocast::off();
  for (WatchedOp& op : watched(model, forward, true)) {
    const auto found = typed.find(key_of(op));
    if (found == typed.end() || found->second.input_types.size() != op.inputs.size() ||
        found->second.output_types.size() != op.outputs.size())
      continue;
    op.input_types = found->second.input_types;
    op.output_types = found->second.output_types;
    const auto note = [&](const Tensor& tensor, DType type) {
      if (is_real(tensor) && is_16bit(type)) stored_.emplace(name_of(tensor), type);
    };
    for (std::size_t i = 0; i < op.inputs.size(); ++i) note(op.inputs[i], op.input_types[i]);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      note(op.outputs[i], op.output_types[i]);
      if (is_real(op.outputs[i])) makers_.emplace(name_of(op.outputs[i]), ops_.size());
    }
    ops_.push_back(std::move(op));
  }
}

const WatchedOp* WatchedForward::maker_of(const Tensor& tensor) const {
  const auto found = makers_.find(name_of(tensor));
  return found == makers_.end() ? nullptr : &ops_[found->second];
}

std::optional<DType> WatchedForward::stored(const Tensor& tensor) const {
  if (!is_real(tensor)) return std::nullopt;
  const auto found = stored_.find(name_of(tensor));
  return found == stored_.end() ? std::nullopt : std::optional(found->second);
}

std::string WatchedForward::parameter(const Tensor& tensor) const {
  const auto found = parameters_.find(name_of(tensor));
  return found == parameters_.end() ? "" : found->second;
}

const ValueRange& WatchedForward::range(const Tensor& tensor) const {
  const auto [entry, fresh] = ranges_.try_emplace(name_of(tensor));
  if (fresh) entry->second = scan(tensor);
  return entry->second;
}

}  // namespace tandem::amp
