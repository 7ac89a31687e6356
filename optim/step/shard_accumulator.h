// ShardAccumulator: accumulates the shards of one process in a step, one after the other in the same buffers.
//
// On a device other than the CPU a process has one shard. Its gradients are reduced by the end of its last
// backward, as part of that backward's recording; statistics and state follow at the end of the step. The
// host exchanges the weights with the other processes and waits for no device.
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

// Totals over all shards of a step.
struct ShardTotals {
  double weight = 0.0;    // of the micro-batches
  double loss_sum = 0.0;  // sum of losses times weights
  std::int32_t non_finite_losses = 0;
  double with_samples = 0.0;  // number of shards with a backward

  // Whether recorded ends are interchangeable for steps with these totals.
  bool weighs_like(const ShardTotals& other) const {
    return weight == other.weight && with_samples == other.with_samples;
  }
};

// Micro-batches come in turn, each with the own shards in turn: backward number n of a step belongs to own
// shard n mod own(). The leaves, the next statistics and the counters hold the values of one shard; copies
// keep those of the others. One own shard needs no copies.
class ShardAccumulator {
 public:
  // Keeps all by reference. `accumulate`: micro-batches of a step at most.
  ShardAccumulator(ShardExchange& exchange, TrainedState& trained, LateCounters& counters, int accumulate);

  // Restores the values of the shard of backward number `call`, before its forward.
  void enter(int call);
  // Call before a backward. `last`: the step's last possible one, whose completed gradients may be reduced.
  void expect(bool last);
  // Replaces the backward of a shard without samples.
  void pass(bool last);
  // Allows reduction while backward is running, if the processes support it. Forbid it when they exchange
  // other messages meanwhile in an order that differs between processes. Holds until set again.
  void overlap(bool may) { overlaps_ = may; }
  // Counts the result of a backward. `loss` is not read on a device, where the last backward reduces the
  // gradients.
  void count(PartWeight weight, double loss, bool last);
  // On a device: counts a replayed backward.
  void replayed(PartWeight weight, bool last);
  // Snapshot for put_back, which undoes a failed recording.
  struct Noted;
  Noted noted() const;
  void put_back(const Noted& noted);
  // Sum over the own shards so far.
  std::int32_t own_non_finite_losses() const;
  // The weights of all shards, exchanged once a step (collective). On a device without losses. Counters hold
  // the passes of the first shard of all, which is the largest.
  const ShardTotals& tell();
  // Reduces over all shards: the flat gradients become the sum, the next statistics the mean, and every
  // parameter has a gradient.
  ShardTotals join();
  // With a sharded update: the processes check their parts of the gradients in turn, each continuing from the
  // result of the one before, so that the norm has the bits of a single process. The checks run one after the
  // other.
  void check_in_turn(StepState& state, const std::function<void()>& check);
  // The same on a device, with the losses in `state` (a StepState) and `scale` (a ScaleState).
  ShardTotals join(const Tensor& state, const Tensor& scale);
  // On a device: whether the step's gradients have been reduced.
  bool complete() const { return complete_; }
  // Drops the step.
  void clear();

 private:
  struct Shard {
    bool entered = false;
    double weight = 0.0, loss_sum = 0.0;
    std::int32_t non_finite_losses = 0, backwards = 0;
    Tensor gradients{}, statistics{};  // copies in reused memory; absent if not needed
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
  const bool once_;  // a step has one micro-batch: a shard's gradients are reduced as soon as they are
                     // complete
  std::vector<Shard> shards_;
  std::unique_ptr<GradientBuckets> buckets_;  // absent: one reduction at the end
  int current_ = -1;
  bool overlaps_ = true;
  std::vector<std::int64_t> before_;   // the counters at the beginning of the step
  std::optional<ShardTotals> totals_;  // of all shards
  bool complete_ = false;
};

struct ShardAccumulator::Noted {
  double weight = 0.0;
  std::int32_t backwards = 0;
  bool complete = false;
};

}  // namespace tandem::optim
