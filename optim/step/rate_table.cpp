#include "optim/step/rate_table.h"

#include <algorithm>

#include "core/backend.h"

namespace tandem::optim {

namespace {
constexpr std::int64_t kEntries = 4096;
constexpr std::int64_t kShort = 2;  // entries: the step before was applied, or not
}  // namespace

RateTable::RateTable(Schedule schedule, Device device)
    : schedule_(std::move(schedule)),
      host_(transfer_memory({1 + kEntries}, DType::f64, device)),
      table_(Tensor::empty({1 + kEntries}, {DType::f64, device, MemoryKind::optimizer})) {}

void RateTable::fill(std::int64_t attempted, std::int64_t applied) {
  double* const table = host_.data<double>();
  table[0] = static_cast<double>(applied);
  for (std::int64_t i = 0; i < kEntries; ++i) table[1 + i] = rate(applied + i);
  backend_for(table_.device()).copy_bytes(host_, table_);
  end_ = attempted + kEntries;  // counts attempted steps, of which at most all are applied
}

double RateTable::rate(std::int64_t applied) const {
  const double scheduled = schedule_(applied);
  return std::max(scheduled * factor_.factor, std::min(scheduled, factor_.least));
}

void RateTable::set_factor(const RateFactor& factor) {
  if (factor == factor_) return;
  factor_ = factor;
  expire();
}

const Tensor& RateTable::once(std::int64_t attempted, std::int64_t applied, double times) {
  Short& one = short_[static_cast<std::size_t>(attempted & 1)];
  if (!one.host.defined()) {
    one.host = transfer_memory({1 + kShort}, DType::f64, table_.device());
    one.table = Tensor::empty({1 + kShort}, {DType::f64, table_.device(), MemoryKind::optimizer});
  }
  double* const table = one.host.data<double>();
  table[0] = static_cast<double>(applied);
  for (std::int64_t i = 0; i < kShort; ++i) table[1 + i] = times * rate(applied + i);
  backend_for(table_.device()).copy_bytes(one.host, one.table);
  return one.table;
}

}  // namespace tandem::optim
