// Roofline model of ops, and advice on batch sizes: arithmetic on shapes and rates, without tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/op_traits.h"
#include "models/matrix_units.h"

namespace tandem::advise {

struct Rates {
  double flops = 0.0;             // of products, per second
  double bytes_per_second = 0.0;  // sum of reads and writes
  double overhead = 0.0;          // minimum seconds of an op
};

enum class Bound : std::uint8_t { compute, memory, overhead };
const char* name_of(Bound bound);

struct Work {
  std::int64_t flop = 0, bytes = 0;
};

// max(flop/(flops·filled), bytes/bytes_per_second) + overhead. `filled`: utilisation of the unit.
double estimated_seconds(const Work& work, const Rates& rates, double filled = 1.0);
// The greatest of the three terms; also overhead if `measured` is more than four times the estimate.
Bound bound_of(const Work& work, const Rates& rates, double measured, double filled = 1.0);

using models::filled_up;
using models::kAmx;
using models::kTensorCore;
using models::UnitSize;

// Utilisation of a unit: m·n·k over the same sizes rounded up to multiples of the unit's.
double filled(const ProductSize& size, const UnitSize& unit);

// A product of a model at some batch; `m` grows with the batch.
struct BatchProduct {
  ProductSize size;
  std::int64_t flop = 0;
};

struct BatchAdvice {
  Index batch = 0;
  double reached = 0.0;  // share of the FLOP in products at or above the ridge
};

// The smallest multiple of `multiple` at which enough products reach `ridge` FLOP per byte: those with 90 %
// of the FLOP that any batch can bring there. `at` is the batch of `products`. The result is at most `most`,
// the limit of memory, and `most` itself if that is less than a multiple. Absent if no batch brings a product
// there.
std::optional<BatchAdvice> batch_for(std::span<const BatchProduct> products, Index at, double ridge,
                                     Index multiple, Index most);

// The greatest batch within 0.9 of memory, by linear extrapolation from the peaks of two batches.
Index greatest_batch(Index first, double first_bytes, Index second, double second_bytes, double memory);

// Shares of a step's time: products, memory-bound ops, overhead and host. Their sum is 1.
struct StepShares {
  double compute = 0.0, memory = 0.0, overhead = 0.0;
};

// 1/(compute/factor + memory/2 + overhead): speedup of a step whose products are `factor` times as fast and
// whose tensors have half the bytes.
double step_speedup(const StepShares& shares, double factor);

}  // namespace tandem::advise
