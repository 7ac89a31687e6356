#include "optim/step/shard_accumulator.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/backend.h"

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

void ShardAccumulator::count(double weight, double loss) {
  if (buckets_) buckets_->disarm();
  Shard& shard = current();
  ++shard.backwards;
  shard.weight += weight;
  shard.loss_sum += weight * loss;
  if (!std::isfinite(loss)) ++shard.non_finite_losses;
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

ShardTotals ShardAccumulator::join() {
  put_aside(current());
  // All that is added up is begun before anything else is said: a process whose shard had no samples begins
  // nothing earlier. What has no gradient takes part with zeros.
  trained_.collect(true);
  if (buckets_) buckets_->begin_rest();
  constexpr std::ptrdiff_t kFigures = 4;
  std::vector<double> rows;  // of each own shard these figures, and its counters
  for (const Shard& shard : shards_) {
    for (const double value : {shard.weight, shard.loss_sum, static_cast<double>(shard.non_finite_losses),
                               shard.backwards > 0 ? 1.0 : 0.0})
      rows.push_back(value);
    for (const std::int64_t count : alone() ? counters_.next() : shard.counts)
      rows.push_back(static_cast<double>(count));
  }
  const std::size_t width = rows.size() / shards_.size();
  const std::vector<double> all = exchange_.gather(rows);
  ShardTotals totals;
  double with_samples = 0.0;
  for (std::size_t row = 0; row + width <= all.size(); row += width) {
    totals.weight += all[row];
    totals.loss_sum += all[row + 1];
    totals.non_finite_losses += static_cast<std::int32_t>(all[row + 2]);
    with_samples += all[row + 3];
  }
  add_gradients();
  average_statistics(with_samples);
  // The first shard is the largest: no other has more passes.
  counters_.set_next({all.begin() + kFigures, all.begin() + static_cast<std::ptrdiff_t>(width)});
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

// Of a shard without samples they are those that the step began with, and do not count.
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
  if (shards > 0.0) {
    backend.scale_and_limit(next, 1.0 / shards, std::numeric_limits<double>::infinity());
  } else {
    trained_.drop_statistics();
  }
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
}

}  // namespace tandem::optim
