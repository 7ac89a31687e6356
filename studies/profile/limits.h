// Limits of a device, measured through its Backend under the rules of the run.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/backend.h"

namespace tandem::profile {

// Roofline: work with `bytes` and `flop` takes at least max(bytes / bytes_per_second, flop / flops).
struct Limits {
  double bytes_per_second = 0.0;                   // of a copy, reads plus writes
  std::vector<std::pair<DType, double>> products;  // FLOP/s of square products by dtype of operands
  double empty_seconds = 0.0;                      // between two consecutive timestamps
  // Set by measured_limits only, and not used in the bound: FLOP/s of 3x3 convolutions, counted by the
  // definition, and bytes per second of an element-wise op.
  std::vector<std::pair<DType, double>> convolutions, elementwise;

  // FLOP/s of products; those of f32 if the dtype was not measured.
  double flops(DType operands) const;
  double bound(std::int64_t bytes, std::int64_t flop, DType operands) const;
};

// Memory copies, to measure the bandwidth and to keep a device busy for a known time.
class CopyLoad {
 public:
  explicit CopyLoad(Backend& backend);

  // Seconds of one copy, the best of several; waits for the device and clears its timestamps.
  double seconds();
  // Bytes read and written by one copy.
  double bytes() const { return 2.0 * static_cast<double>(from_.bytes()); }
  // The shortest time between two consecutive timestamps while the device is busy; clears its timestamps.
  double empty_interval();
  // Enqueues copies.
  void enqueue(std::int64_t copies);

 private:
  Backend& backend_;
  Tensor from_, to_;
};

// Measures all of Limits except empty_seconds, for operands and storage of these dtypes.
Limits measured_limits(Backend& backend, std::span<const DType> dtypes);

// The functions below clear the backend's timestamps.
// Best FLOP/s of square products of `operands`, of growing sizes.
double product_rate(Backend& backend, DType operands);
// Best FLOP/s, counted by the definition, of forward 3x3 convolutions with stride 1 in the sizes of a
// ResNet-50.
double convolution_rate(Backend& backend, DType operands);
// Bytes per second, reads plus writes, of an element-wise op (ReLU) on large tensors of that dtype.
double elementwise_rate(Backend& backend, DType storage);

}  // namespace tandem::profile
