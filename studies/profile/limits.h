// What a device can do at most, measured on it through its Backend, under the rules that the run computes by.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/backend.h"

namespace tandem::profile {

// The roofline: work that moves `bytes` and does `flop` takes at least
// max(bytes / bytes_per_second, flop / flops).
struct Limits {
  double bytes_per_second = 0.0;                   // read and written together, by a copy
  std::vector<std::pair<DType, double>> products;  // FLOP/s of square products of such operands
  double empty_seconds = 0.0;                      // between two timestamps with nothing in between

  // Of products of operands that were not measured: that of f32.
  double flops(DType operands) const;
  double bound(std::int64_t bytes, std::int64_t flop, DType operands) const;
};

// Memory that is copied to measure the bandwidth, and to keep a device busy for a known time.
class CopyLoad {
 public:
  explicit CopyLoad(Backend& backend);

  // Of one copy, the best of several; waits for the device and clears its timestamps.
  double seconds();
  // That one copy reads and writes.
  double bytes() const { return 2.0 * static_cast<double>(from_.bytes()); }
  // The least time between two marks in a row, asked for while the device is busy; clears its timestamps.
  double empty_interval();
  // Asks for so many copies.
  void enqueue(std::int64_t copies);

 private:
  Backend& backend_;
  Tensor from_, to_;
};

// Best FLOP/s of square products of `operands`, of growing sizes. Clears the backend's timestamps.
double product_rate(Backend& backend, DType operands);

}  // namespace tandem::profile
