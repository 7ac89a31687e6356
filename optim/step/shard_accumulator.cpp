#include "optim/step/shard_accumulator.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/backend.h"
#include "core/kernels/update.h"

namespace tandem::optim {

namespace {

std::span<float> values_of(const Tensor& tensor) {
  return {tensor.data<float>(), static_cast<std::size_t>(tensor.numel())};
}

void copy_values(const Tensor& from, const Tensor& to) { backend_for(from.device()).copy_bytes(from, to); }

void keep(const Tensor& from, Tensor& copy) {
  if (!copy.defined()) copy = Tensor::empty(from.shape(), from.options());
  copy_values(from, copy);
}

}  // namespace

ShardAccumulator::ShardAccumulator(ShardExchange& exchange, TrainedState& trained, LateCounters& counters,
                                   int accumulate)
    : exchange_(exchange),
      trained_(trained),
      counters_(counters),
      once_(accumulate == 1),
      shards_(static_cast<std::size_t>(exchange.own())) {
  if (alone() && exchange.bucket_bytes() > 0 && !trained.parts())
    buckets_ = std::make_unique<GradientBuckets>(trained.buffers(), exchange);
}

void ShardAccumulator::enter(int call) {
  const int own = call % static_cast<int>(shards_.size());
  if (own == current_) return;
  if (current_ < 0) {
    before_ = counters_.next();
  } else {
    put_aside(current());
  }
  current_ = own;
  put_in_place(current());
}

void ShardAccumulator::expect(bool last) {
  if (buckets_ && last && overlaps_) buckets_->arm();
}

void ShardAccumulator::pass(bool last) {
  expect(last);
  if (buckets_) buckets_->disarm();
}

void ShardAccumulator::count(PartWeight weight, double loss, bool last) {
  if (buckets_) buckets_->disarm();
  Shard& shard = current();
  ++shard.backwards;
  shard.weight += weight.count;
  if (on_device()) {
    if (last) complete_gradients();
    return;
  }
  shard.loss_sum += weight.divisor * loss;
  if (!std::isfinite(loss)) ++shard.non_finite_losses;
}

void ShardAccumulator::replayed(PartWeight weight, bool last) {
  Shard& shard = current();
  ++shard.backwards;
  shard.weight += weight.count;
  complete_ = last;
}

ShardAccumulator::Noted ShardAccumulator::noted() const {
  const Shard& shard = shards_.front();
  return {.weight = shard.weight, .backwards = shard.backwards, .complete = complete_};
}

void ShardAccumulator::put_back(const Noted& noted) {
  Shard& shard = shards_.front();
  shard.weight = noted.weight;
  shard.backwards = noted.backwards;
  complete_ = noted.complete;
  buckets_->forget();
  exchange_.drop();
}

// Gives parameters without a gradient zeros.
void ShardAccumulator::complete_gradients() {
  trained_.collect(true);
  buckets_->begin_rest();
  buckets_->finish();
  trained_.mark_gradients();
  complete_ = true;
}

std::int32_t ShardAccumulator::own_non_finite_losses() const {
  std::int32_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.non_finite_losses;
  return sum;
}

void ShardAccumulator::put_aside(Shard& shard) {
  if (alone()) return;
  shard.counts = counters_.next();
  trained_.collect(true);
  const Tensor& gradients = trained_.buffers().gradients();
  if (once_) {
    exchange_.add(values_of(gradients));
  } else {
    keep(gradients, shard.gradients);
  }
  trained_.drop_gradients();
  if (const Tensor& next = trained_.statistics().next; next.defined()) keep(next, shard.statistics);
}

void ShardAccumulator::put_in_place(Shard& shard) {
  const bool begins = !std::exchange(shard.entered, true);
  if (alone()) return;
  counters_.set_next(begins ? before_ : shard.counts);
  if (begins) return trained_.drop_statistics();
  copy_values(shard.gradients, trained_.buffers().gradients());
  trained_.mark_gradients();
  if (shard.statistics.defined()) copy_values(shard.statistics, trained_.statistics().next);
}

// Counter increments of the shard's passes.
std::vector<std::int64_t> ShardAccumulator::counted_by(const Shard& shard) const {
  if (alone()) return counters_.added();
  std::vector<std::int64_t> counts = shard.counts;
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] -= before_[i];
  return counts;
}

const ShardTotals& ShardAccumulator::tell() {
  if (totals_) return *totals_;
  std::vector<double> rows;
  for (const Shard& shard : shards_) {
    for (const double value : {shard.weight, shard.loss_sum, static_cast<double>(shard.non_finite_losses),
                               shard.backwards > 0 ? 1.0 : 0.0})
      rows.push_back(value);
    for (const std::int64_t count : counted_by(shard)) rows.push_back(static_cast<double>(count));
  }
  const std::size_t width = rows.size() / shards_.size();
  const std::vector<double> all = exchange_.gather(rows);
  ShardTotals& totals = totals_.emplace();
  for (std::size_t row = 0; row + width <= all.size(); row += width) {
    totals.weight += all[row];
    totals.loss_sum += all[row + 1];
    totals.non_finite_losses += static_cast<std::int32_t>(all[row + 2]);
    totals.with_samples += all[row + 3];
  }
  const std::vector<std::int64_t> counted(all.begin() + 4, all.begin() + static_cast<std::ptrdiff_t>(width));
  counters_.set_added(counted);
  return totals;
}

ShardTotals ShardAccumulator::join() {
  put_aside(current());
  // All reductions start before any other exchange, because a process whose shard had no samples has not
  // started any. Parameters without a gradient take part with zeros.
  trained_.collect(true);
  if (buckets_) buckets_->begin_rest();
  const ShardTotals totals = tell();
  add_gradients();
  average_statistics(totals.with_samples);
  return totals;
}

ShardTotals ShardAccumulator::join(const Tensor& state, const Tensor& scale) {
  if (!complete_) complete_gradients();
  const ShardTotals totals = tell();
  const auto in = [](const Tensor& structure, std::size_t offset) -> void* {
    return static_cast<std::byte*>(structure.raw()) + offset;
  };
  // Only whether a count is 0 matters, which its maximum preserves; other steps may have added to the counts
  // of a shared scale.
  std::vector<ShardExchange::DeviceValues> values{
      {in(state, offsetof(StepState, loss_sum)), 1, DType::f64, false},
      {in(state, offsetof(StepState, forward_non_finite)), 1, DType::i32, true},
      {in(scale, offsetof(ScaleState, forward_non_finite)), 1, DType::i32, true}};
  const Tensor& next = trained_.statistics().next;
  if (next.defined()) {
    // A shard without samples still has the statistics of the step's start, which do not count.
    if (shards_.front().backwards == 0) backend_for(next.device()).fill(next, 0.0);
    values.push_back({next.raw(), next.numel(), next.dtype(), false});
  }
  exchange_.begin_values(values);
  exchange_.finish();
  if (next.defined()) divide_statistics(totals.with_samples);
  trained_.collect(true);
  return totals;
}

void ShardAccumulator::add_gradients() {
  const Tensor& gradients = trained_.buffers().gradients();
  if (buckets_) {
    buckets_->finish();
    trained_.mark_gradients();
    return trained_.collect(true);
  }
  if (alone()) {
    exchange_.add(values_of(gradients));
  } else if (!once_) {
    for (const Shard& shard : shards_) exchange_.add(values_of(shard.gradients));
  }
  if (const UpdateParts* const parts = trained_.parts()) {
    exchange_.sum_parts(gradients, parts->counts());
  } else {
    exchange_.sum(values_of(gradients));
  }
  trained_.mark_gradients();
  trained_.collect(true);
}

// A shard without samples still has the statistics of the step's start, which do not count.
void ShardAccumulator::average_statistics(double shards) {
  const Tensor& next = trained_.statistics().next;
  if (!next.defined()) return;
  Backend& backend = backend_for(next.device());
  for (const Shard& shard : shards_) {
    const Tensor& own = alone() ? next : shard.statistics;
    if (shard.backwards == 0) backend.fill(own, 0.0);
    exchange_.add(values_of(own));
  }
  exchange_.sum(values_of(next));
  divide_statistics(shards);
}

void ShardAccumulator::divide_statistics(double shards) {
  if (shards == 0.0) return trained_.drop_statistics();
  const Tensor& next = trained_.statistics().next;
  backend_for(next.device())
      .update()
      .scale_and_limit(next, 1.0 / shards, std::numeric_limits<double>::infinity());
}

void ShardAccumulator::check_in_turn(StepState& state, const std::function<void()>& check) {
  const UpdateParts& parts = *trained_.parts();
  for (std::size_t part = 0; part < parts.counts().size(); ++part) {
    if (parts.counts()[part] == 0) continue;
    const auto process = static_cast<int>(part);
    if (process == parts.own()) check();
    std::array<double, 3> found{state.sum_of_squares, static_cast<double>(state.non_finite), state.amax};
    exchange_.tell(found, process);
    state.sum_of_squares = found[0];
    state.non_finite = static_cast<std::int32_t>(found[1]);
    state.amax = found[2];
  }
}

void ShardAccumulator::clear() {
  if (buckets_) buckets_->drop();
  exchange_.drop();
  for (Shard& shard : shards_)
    shard = {.gradients = std::move(shard.gradients),
             .statistics = std::move(shard.statistics),
             .counts = std::move(shard.counts)};
  current_ = -1;
  totals_.reset();
  complete_ = false;
}

}  // namespace tandem::optim
