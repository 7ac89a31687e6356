// What a device can do at most, measured on it through its Backend, under the rules that the run computes by.
#pragma once

#include <cstdint>
#include <span>
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
  // No part of the bound; by measured_limits only. FLOP/s of 3x3 convolutions, counted by the definition, and
  // bytes a second of an element-wise op.
  std::vector<std::pair<DType, double>> convolutions, elementwise;

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

// Everything of Limits but empty_seconds, for operands and storage of these types.
Limits measured_limits(Backend& backend, std::span<const DType> dtypes);

// These clear the backend's timestamps.
// Best FLOP/s of square products of `operands`, of growing sizes.
double product_rate(Backend& backend, DType operands);
// Best FLOP/s, counted by the definition, of forward 3x3 convolutions of stride 1 in sizes of a ResNet-50.
double convolution_rate(Backend& backend, DType operands);
// Bytes a second, read and written together, of an element-wise op (ReLU) on large tensors of such storage.
double elementwise_rate(Backend& backend, DType storage);

}  // namespace tandem::profile
