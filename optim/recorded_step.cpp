// Recorded steps. The host does the same bookkeeping as for ordinary work, so recorded and ordinary
// micro-batches and steps can be mixed in any order with the same bits.
#include "optim/recorded_step.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "optim/step.h"

namespace tandem::optim {

namespace {

// Host-side effects of a forward: counters, and working copies that become current. Replays skip them, so a
// recording repeats them; a failed recording undoes them.
class HostNotes : public nn::ModuleObserver {
 public:
  // For a step over `module`, which renews the working copies of its own masters (`own`).
  HostNotes(nn::Module& module, const Tensor& own) : own_(own) { enter(module); }

  void enter(nn::Module& root) override {
    if (seen_.contains(&root)) return;
    root.visit([&](const std::string&, nn::Module& module) {
      if (!seen_.insert(&module).second) return;
      for (const auto& [name, parameter] : module.own_parameters())
        if (!parameter.value().shares_storage(own_)) others_.push_back(parameter);
    });
    for (const nn::Counter& counter : root.counters()) {
      const bool known =
          std::ranges::any_of(counts_, [&](const auto& count) { return count.first.live == counter.live; });
      if (!known) counts_.emplace_back(counter, *counter.next);
    }
  }

  void take_back() const {
    for (const auto& [counter, before] : counts_) *counter.next = before;
    for (const Parameter& parameter : others_) expire_working_copies(parameter.value());
  }

  // The increments of each counter.
  std::vector<std::pair<nn::Counter, std::int64_t>> counts() const {
    std::vector<std::pair<nn::Counter, std::int64_t>> added;
    for (const auto& [counter, before] : counts_) {
      if (*counter.next != before) added.emplace_back(counter, *counter.next - before);
    }
    return added;
  }

  // Stale working copies of other weights, one for each storage and type; renewing one renews all of its
  // storage.
  std::vector<std::pair<Parameter, DType>> copies() const {
    std::vector<std::pair<Parameter, DType>> kept;
    std::set<std::pair<const Storage*, DType>> known;
    for (const Parameter& parameter : others_) {
      const Tensor& value = parameter.value();
      for (int type = 0; type < kDTypeCount; ++type) {
        const auto dtype = static_cast<DType>(type);
        if (is_16bit(dtype) && has_working_copy(value, dtype) &&
            known.emplace(value.storage().get(), dtype).second)
          kept.emplace_back(parameter, dtype);
      }
    }
    return kept;
  }

 private:
  const Tensor& own_;
  std::set<const nn::Module*> seen_;
  std::vector<Parameter> others_;
  std::vector<std::pair<nn::Counter, std::int64_t>> counts_;  // with their values before
};

}  // namespace

void Step::check_recordable() const {
  require(backend().records(), "step", "{} does not record work", to_string(buffers().device()));
  require(!unscaled_, "step", "unscaled gradients are not recorded");
}

// Whether each slot has a gradient.
std::vector<char> Step::slots_with_gradient() const {
  std::vector<char> slots(buffers().slots().size());
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = has_gradient_so_far(i) ? 1 : 0;
  return slots;
}

void Step::set_slots_with_gradient(const std::vector<char>& slots) {
  if (per_loss()) return loss_gradients_->resume(slots);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Leaf& leaf = buffers().slots()[i].parameter.leaf();
    slots[i] ? leaf.mark_written() : leaf.clear_gradient();
  }
}

std::unique_ptr<RecordedBackward> Step::record_backward(const std::function<Tensor()>& forward,
                                                        PartWeight samples, int loss_index) {
  check_recordable();
  auto recorded = std::make_unique<RecordedBackward>();
  recorded->weight_ = begin_micro_batch(samples, loss_index);
  recorded->micro_batch_ = micro_batches_.count();
  recorded->loss_index_ = loss_index;
  recorded->samples_ = samples;
  recorded->had_gradient_ = slots_with_gradient();
  trained_.refresh_working_copies();
  gradients_so_far();  // allocates outside the recording's memory
  HostNotes notes(module_, buffers().masters());
  const ShardAccumulator::Noted noted = shards_ ? shards_->noted() : ShardAccumulator::Noted();
  try {
    recorded->work_ = backend().record([&] {
      const nn::ModuleObserverScope scope(notes);
      enqueue_backward(forward(), recorded->weight_, loss_index);
    });
    recorded->work_->replay();
  } catch (...) {  // nothing ran on the device
    notes.take_back();
    if (shards_) shards_->put_back(noted);
    trained_.drop_gradients();
    set_slots_with_gradient(recorded->had_gradient_);
    throw;
  }
  recorded->has_gradient_ = slots_with_gradient();
  recorded->counts_ = notes.counts();
  recorded->copies_ = notes.copies();
  micro_batches_.add(recorded->weight_, loss_index);
  return recorded;
}

void Step::backward(RecordedBackward& recorded) {
  const PartWeight weight = begin_micro_batch(recorded.samples_, recorded.loss_index_);
  require(recorded.micro_batch_ == micro_batches_.count(), "step",
          "micro-batch number {} was recorded, number {} is due", recorded.micro_batch_,
          micro_batches_.count());
  require(recorded.weight_ == weight, "step",
          "{} samples were recorded as {} times those of the first micro-batch, which has {} now",
          recorded.samples_.count, recorded.weight_.count, micro_batches_.reference());
  require(recorded.had_gradient_ == slots_with_gradient(), "step",
          "the micro-batches before left gradients on other parameters than when this one was recorded");
  trained_.refresh_working_copies();
  for (const auto& [parameter, dtype] : recorded.copies_) working_copy(parameter.value(), dtype);
  recorded.work_->replay();
  for (const auto& [counter, added] : recorded.counts_) *counter.next += added;
  set_slots_with_gradient(recorded.has_gradient_);
  if (shards_) shards_->replayed(weight, micro_batches_.last());
  micro_batches_.add(weight, recorded.loss_index_);
}

std::unique_ptr<RecordedApply> Step::record_apply() {
  check_recordable();
  const Tensor& rates = prepare_apply();
  auto recorded = std::make_unique<RecordedApply>();
  recorded->micro_batches_ = micro_batches_.count();
  recorded->weight_ = micro_batches_.weight();
  recorded->has_gradient_ = slots_with_gradient();
  if (shards_) {
    recorded->shards_ = shards_->tell();
    recorded->complete_ = shards_->complete();
  }
  const ShardAccumulator::Noted noted = shards_ ? shards_->noted() : ShardAccumulator::Noted();
  const std::int64_t applied = averaged_as();
  try {
    recorded->work_ = backend().record([&] { enqueue_apply(rates, applied); });
    recorded->work_->replay();
  } catch (...) {  // nothing ran on the device
    if (shards_) shards_->put_back(noted);
    trained_.drop_gradients();
    set_slots_with_gradient(recorded->has_gradient_);
    throw;
  }
  finish_step();
  return recorded;
}

bool Step::fits(const RecordedApply& recorded) const {
  if (shards_ &&
      !(shards_->tell().weighs_like(*recorded.shards_) && shards_->complete() == recorded.complete_))
    return false;
  return recorded.micro_batches_ == micro_batches_.count() && recorded.weight_ == micro_batches_.weight() &&
         !unscaled_ && ends_alike() && recorded.has_gradient_ == slots_with_gradient();
}

void Step::apply(RecordedApply& recorded) {
  check_apply();
  require(fits(recorded), "step",
          "the recorded end of a step was for {} micro-batches of other sizes or other gradients",
          recorded.micro_batches_);
  fill_rates();
  trained_.prepare_update();
  recorded.work_->replay();
  finish_step();
}

}  // namespace tandem::optim
