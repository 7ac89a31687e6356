#include "optim/step/rate_table.h"

#include "core/backend.h"

namespace tandem::optim {

namespace {
constexpr std::int64_t kEntries = 4096;
}

RateTable::RateTable(Schedule schedule, Device device)
    : schedule_(std::move(schedule)),
      host_(transfer_memory({1 + kEntries}, DType::f64, device)),
      table_(Tensor::empty({1 + kEntries}, {DType::f64, device, MemoryKind::optimizer})) {}

void RateTable::fill(std::int64_t attempted, std::int64_t applied) {
  double* const table = host_.data<double>();
  table[0] = static_cast<double>(applied);
  for (std::int64_t i = 0; i < kEntries; ++i) table[1 + i] = schedule_(applied + i);
  backend_for(table_.device()).copy_bytes(host_, table_);
  end_ = attempted + kEntries;  // in attempted steps, of which at most all are applied
}

}  // namespace tandem::optim
