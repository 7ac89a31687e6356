#include "optim/update_context.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "autograd/ops/elementwise.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/update.h"
#include "core/kernels/update_rules.h"

namespace tandem::optim {

UpdatedParameter::UpdatedParameter(const UpdateWork& work, std::size_t number)
    : work_(work), entry_(*work.entries[number]), state_(work.state[number]), range_(work.ranges[number]) {
  const Shape& shape = entry_.parameter.value().shape();
  const auto own = [&](const Tensor& buffer) {
    return buffer.rows(range_.first, range_.count).viewed(shape);
  };
  weight_ = own(work.buffers.master);
  gradient_ = own(work.buffers.gradient);
  if (work.buffers.working.defined()) working_ = own(work.buffers.working);
  range_.first = 0;
}

Tensor UpdatedParameter::gradient() const {
  const Tensor values = Tensor::empty(weight_.shape(), {DType::f32, weight_.device(), MemoryKind::workspace});
  assign(gradient_, {.master = values}, true, uncounted());
  return values;
}

Tensor UpdatedParameter::lr() const {
  const Tensor of_step = Tensor::over(
      work_.step.storage(), work_.step.offset() + offsetof(StepState, learning_rate), Shape{}, DType::f64);
  return cast(of_step * static_cast<double>(range_.lr_factor), DType::f32);
}

Tensor UpdatedParameter::number() const {
  const Tensor updates = work_.buffers.counts.rows(range_.slot, 1).viewed(Shape{});
  return cast(updates, DType::f32) + 1.0;
}

const Tensor& UpdatedParameter::state(std::string_view name) const {
  const auto found = std::ranges::find(state_, name, &NamedState::name);
  require(found != state_.end(), work_.optimizer.name(),
          "keeps no \"{}\" of parameter {}: state_of declares it", name, parameter().name());
  return found->value;
}

void UpdatedParameter::check(std::string_view what, const Tensor& value, const Tensor& target) const {
  require(value.defined() && value.shape() == target.shape() && value.dtype() == DType::f32 &&
              value.device() == target.device(),
          work_.optimizer.name(), "{} of parameter {} is {}, set to {}", what, parameter().name(),
          to_string(target), to_string(value));
}

void UpdatedParameter::set_state(std::string_view name, const Tensor& value) {
  const Tensor& target = state(name);
  check(name, value, target);
  assign(value, {.master = target, .rounding = {.weights = work_.buffers.rounding.moments}}, false,
         uncounted());
}

void UpdatedParameter::set_weight(const Tensor& value) {
  check("weight", value, weight_);
  assign(value, {.master = weight_, .working = working_, .rounding = rounding()}, false, range_.slot);
}

void UpdatedParameter::update(const UpdateRule& rule, std::initializer_list<std::string_view> moments) {
  ensure(moments.size() <= kMostMoments, work_.optimizer.name(), "{} moments, a rule has at most {}",
         moments.size(), kMostMoments);
  std::array<Tensor, kMostMoments> kept;
  std::size_t m = 0;
  for (const std::string_view name : moments) check(name, kept[m++] = state(name), weight_);
  const UpdateBuffers buffers{.master = weight_,
                              .gradient = gradient_,
                              .working = working_,
                              .moment1 = kept[0],
                              .moment2 = kept[1],
                              .moment3 = kept[2],
                              .counts = work_.buffers.counts,
                              .rounding = rounding()};
  UpdateRule clipped = rule;
  clipped.clip_value = work_.clip_value;
  work_.backend.update().update(clipped, {&range_, 1}, buffers, work_.step);
}

// Each element draws by its place in the parameter, each parameter by its own seed.
StorageRounding UpdatedParameter::rounding() const {
  StorageRounding rounding = work_.buffers.rounding;
  rounding.seed += 0x9E3779B97F4A7C15u * static_cast<std::uint64_t>(range_.slot + 1);
  return rounding;
}

void UpdatedParameter::assign(const Tensor& value, UpdateBuffers target, bool unscales, Index slot) const {
  UpdateRule rule = update_rules::Assign{.unscales = unscales};
  rule.clip_value = work_.clip_value;
  UpdateRange range = range_;
  range.count = value.numel();
  range.slot = slot;
  target.gradient = value;
  target.counts = work_.buffers.counts;
  work_.backend.update().update(rule, {&range, 1}, target, work_.step);
}

UpdateContext::UpdateContext(const UpdateWork& work) : work_(work) {
  if (work.optimizer.rule()) return;
  parameters_.reserve(work.ranges.size());
  for (std::size_t i = 0; i < work.ranges.size(); ++i) parameters_.emplace_back(work, i);
}

void UpdateContext::update(const UpdateRule& rule) {
  UpdateRule clipped = rule;
  clipped.clip_value = work_.clip_value;
  work_.backend.update().update(clipped, work_.ranges, work_.buffers, work_.step);
}

}  // namespace tandem::optim
