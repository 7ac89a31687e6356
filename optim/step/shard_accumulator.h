// What the shards of one process gather in a step, one after the other in the same buffers.
//
// On a device that is not the CPU a process has one shard. Its gradients are added up by the end of its last
// backward, as part of that backward's recording; statistics and what the state gathered follow at the end of
// the step. The host tells the others the weights, which it knows, and hears theirs; it waits for no device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "optim/step/counters.h"
#include "optim/step/gradient_buckets.h"
#include "optim/step/micro_batches.h"
#include "optim/step/shards.h"
#include "optim/step/trained_state.h"

namespace tandem::optim {

// What all shards have said of a step.
struct ShardTotals {
  double weight = 0.0;    // of the micro-batches
  double loss_sum = 0.0;  // of their losses, each times its weight
  std::int32_t non_finite_losses = 0;
  double with_samples = 0.0;  // shards that had a backward

  // Whether steps with these end alike.
  bool weighs_like(const ShardTotals& other) const {
    return weight == other.weight && with_samples == other.with_samples;
  }
};

// Micro-batches come in turn, and of each the own shards in turn: backward number n of a step is of own shard
// n mod own(). The leaves, the next statistics and the counters hold what one shard has gathered; what the
// others have is kept aside. With one own shard nothing is copied.
class ShardAccumulator {
 public:
  // Everything is kept by reference. `accumulate`: micro-batches a step has at most.
  ShardAccumulator(ShardExchange& exchange, TrainedState& trained, LateCounters& counters, int accumulate);

  // Puts in place what the shard of backward number `call` of the step has gathered; before its forward.
  void enter(int call);
  // Before a backward: whether it is the last one that the step can have. The gradients that it completes may
  // be added up.
  void expect(bool last);
  // In place of a backward: a shard without samples has none of its own.
  void pass(bool last);
  // Whether gradients may be added up while backward makes others, where processes can: not where they say
  // other things to each other meanwhile, in an order that is not the same for all. Until it is said again.
  void overlap(bool may) { overlaps_ = may; }
  // What that backward gave. `loss` is not read on a device; the last backward adds the gradients up there.
  void count(PartWeight weight, double loss, bool last);
  // On a device: the backward was done from its recording.
  void replayed(PartWeight weight, bool last);
  // What was done since `noted` is undone by put_back: a recording has failed.
  struct Noted;
  Noted noted() const;
  void put_back(const Noted& noted);
  // Of the own shards so far.
  std::int32_t own_non_finite_losses() const;
  // What all shards weigh, which is told once in a step; a call of all processes. On a device without losses.
  // Counters have counted the passes of the first shard of all, which is the largest.
  const ShardTotals& tell();
  // Adds up over all shards: the flat gradients hold the sum, the next statistics the mean, and every
  // parameter has a gradient.
  ShardTotals join();
  // Of an update in parts: each process looks at its part of the gradients in turn, going on with what those
  // before it have found, so that the norm has the bits that one of them would find. It takes as long as
  // that.
  void check_in_turn(StepState& state, const std::function<void()>& check);
  // The same on a device, with what `state` (a StepState) and `scale` (a ScaleState) gathered of the losses.
  ShardTotals join(const Tensor& state, const Tensor& scale);
  // On a device: the gradients of the step have been added up.
  bool complete() const { return complete_; }
  // Forgets the step.
  void clear();

 private:
  struct Shard {
    bool entered = false;
    double weight = 0.0, loss_sum = 0.0;
    std::int32_t non_finite_losses = 0, backwards = 0;
    Tensor gradients{}, statistics{};  // copies, in memory that is kept; absent where none are needed
    std::vector<std::int64_t> counts{};
  };

  bool alone() const { return shards_.size() == 1; }
  Shard& current() { return shards_[static_cast<std::size_t>(current_)]; }
  std::vector<std::int64_t> counted_by(const Shard& shard) const;
  bool on_device() const { return exchange_.device() != Device{}; }
  void complete_gradients();
  void put_aside(Shard& shard);
  void put_in_place(Shard& shard);
  void add_gradients();
  void average_statistics(double shards);
  void divide_statistics(double shards);

  ShardExchange& exchange_;
  TrainedState& trained_;
  LateCounters& counters_;
  const bool once_;  // a step has one micro-batch: a shard's gradients are added up as soon as they are there
  std::vector<Shard> shards_;
  std::unique_ptr<GradientBuckets> buckets_;  // absent where gradients are added up at once
  int current_ = -1;
  bool overlaps_ = true;
  std::vector<std::int64_t> before_;   // the counters as the step found them
  std::optional<ShardTotals> totals_;  // what all have told
  bool complete_ = false;
};

struct ShardAccumulator::Noted {
  double weight = 0.0;
  std::int32_t backwards = 0;
  bool complete = false;
};

}  // namespace tandem::optim
