// Steps from recordings. The host does its part of the bookkeeping as if the work had been asked for piece by
// piece, so recorded and ordinary micro-batches and steps may follow each other in any order, and leave the
// same bits.
#include "optim/recorded_step.h"

#include "core/error.h"
#include "optim/step.h"

namespace tandem::optim {

void Step::check_recordable() const {
  require(backend().records(), "step", "{} does not record work", to_string(buffers().device()));
  require(own_scaler_ != nullptr && !per_loss(), "step",
          "steps with a shared scaler or a scale for each loss are not recorded");
  require(!options_.reduce, "step", "steps that reduce gradients over ranks are not recorded");
  require(!unscaled_, "step", "unscaled gradients are not recorded");
}

std::unique_ptr<RecordedBackward> Step::record_backward(const std::function<Tensor()>& forward,
                                                        double samples) {
  check_recordable();
  const double weight = begin_micro_batch(samples, 0);
  trained_.refresh_working_copies();
  const auto& slots = buffers().slots();
  const auto& counters = counters_.counters();
  auto recorded = std::make_unique<RecordedBackward>();
  recorded->micro_batch_ = micro_batches_.count();
  recorded->samples_ = samples;
  recorded->weight_ = weight;
  std::vector<std::int64_t> counts;
  for (const nn::Counter& counter : counters) counts.push_back(*counter.next);
  std::vector<char> had_gradient;
  for (const FlatBuffers::Slot& slot : slots)
    had_gradient.push_back(slot.parameter.gradient().defined() ? 1 : 0);
  try {
    recorded->work_ = backend().record([&] { enqueue_backward(forward(), weight, 0); });
    recorded->work_->replay();
  } catch (...) {  // the device has done nothing: what the host noted meanwhile is taken back
    for (std::size_t i = 0; i < counters.size(); ++i) *counters[i].next = counts[i];
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (!had_gradient[i]) slots[i].parameter.leaf().clear_gradient();
    }
    throw;
  }
  for (std::size_t i = 0; i < counters.size(); ++i)
    recorded->counter_steps_.push_back(*counters[i].next - counts[i]);
  for (const FlatBuffers::Slot& slot : slots)
    recorded->has_gradient_.push_back(slot.parameter.gradient().defined() ? 1 : 0);
  micro_batches_.add(weight, 0);
  return recorded;
}

void Step::backward(RecordedBackward& recorded) {
  const double weight = begin_micro_batch(recorded.samples_, 0);
  require(recorded.micro_batch_ == micro_batches_.count(), "step",
          "micro-batch number {} was recorded, number {} is due", recorded.micro_batch_,
          micro_batches_.count());
  require(recorded.weight_ == weight, "step",
          "{} samples were recorded as {} times those of the first micro-batch, which has {} now",
          recorded.samples_, recorded.weight_, micro_batches_.reference());
  trained_.refresh_working_copies();
  recorded.work_->replay();
  const auto& counters = counters_.counters();
  for (std::size_t i = 0; i < counters.size(); ++i) *counters[i].next += recorded.counter_steps_[i];
  const auto& slots = buffers().slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (recorded.has_gradient_[i]) slots[i].parameter.leaf().mark_written();
  }
  micro_batches_.add(recorded.weight_, 0);
}

std::unique_ptr<RecordedApply> Step::record_apply() {
  check_recordable();
  check_apply();
  fill_rates();
  auto recorded = std::make_unique<RecordedApply>();
  recorded->micro_batches_ = micro_batches_.count();
  recorded->weight_ = micro_batches_.weight();
  for (const FlatBuffers::Slot& slot : buffers().slots())
    recorded->has_gradient_.push_back(slot.parameter.gradient().defined() ? 1 : 0);
  // Where this throws, the device has done nothing, and the host has noted nothing that lasts.
  recorded->work_ = backend().record([&] { enqueue_apply(); });
  recorded->work_->replay();
  finish_step();
  return recorded;
}

bool Step::fits(const RecordedApply& recorded) const {
  if (recorded.micro_batches_ != micro_batches_.count() || recorded.weight_ != micro_batches_.weight() ||
      unscaled_)
    return false;
  const auto& slots = buffers().slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].parameter.gradient().defined() != (recorded.has_gradient_[i] != 0)) return false;
  }
  return true;
}

void Step::apply(RecordedApply& recorded) {
  check_apply();
  require(fits(recorded), "step",
          "the recorded end of a step was for {} micro-batches of other sizes or other gradients",
          recorded.micro_batches_);
  fill_rates();
  recorded.work_->replay();
  finish_step();
}

}  // namespace tandem::optim
