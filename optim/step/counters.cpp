#include "optim/step/counters.h"

#include "core/error.h"

namespace tandem::optim {

void LateCounters::watch(std::vector<nn::Counter> counters) {
  counters_ = std::move(counters);
  for (auto& waiting : waiting_) waiting.assign(counters_.size(), 0);
}

std::vector<std::int64_t> LateCounters::next() const {
  std::vector<std::int64_t> values;
  for (const nn::Counter& counter : counters_) values.push_back(*counter.next);
  return values;
}

void LateCounters::set_next(const std::vector<std::int64_t>& values) {
  for (std::size_t i = 0; i < counters_.size(); ++i) *counters_[i].next = values[i];
}

std::vector<std::int64_t> LateCounters::added() const {
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    std::int64_t value = *counters_[i].next - *counters_[i].live;
    for (std::int64_t step = settled_ + 1; step <= closed_; ++step)
      value -= waiting_[static_cast<std::size_t>(step % 2)][i];
    values.push_back(value);
  }
  return values;
}

void LateCounters::set_added(const std::vector<std::int64_t>& values) {
  const std::vector<std::int64_t> now = added();
  for (std::size_t i = 0; i < counters_.size(); ++i) *counters_[i].next += values[i] - now[i];
}

void LateCounters::close_step(std::int64_t attempted, const Outcome& outcome) {
  if (settled_ < attempted - 2) settle(attempted - 1, outcome);
  ensure(settled_ >= attempted - 2, "step", "step {} ends before step {} has a known outcome", attempted,
         settled_ + 1);
  const std::size_t slot = static_cast<std::size_t>(attempted % 2);
  const bool earlier = settled_ < attempted - 1;
  for (std::size_t i = 0; i < counters_.size(); ++i)
    waiting_[slot][i] = *counters_[i].next - *counters_[i].live - (earlier ? waiting_[1 - slot][i] : 0);
  closed_ = attempted;
}

void LateCounters::settle(std::int64_t last, const Outcome& outcome) {
  for (; settled_ < last; ++settled_) {
    const std::optional<bool> skipped = outcome(settled_ + 1);
    if (!skipped) return;
    const auto& waiting = waiting_[static_cast<std::size_t>((settled_ + 1) % 2)];
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      if (*skipped) {
        *counters_[i].next -= waiting[i];
      } else {
        *counters_[i].live += waiting[i];
      }
    }
  }
}

void LateCounters::drop() {
  for (const nn::Counter& counter : counters_) *counter.next = *counter.live;
}

}  // namespace tandem::optim
