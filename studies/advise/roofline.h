// What bounds an op, what its sizes leave idle, and which batch a machine wants: arithmetic on shapes and
// rates, without tensors.
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
  double flops = 0.0;             // of products, a second
  double bytes_per_second = 0.0;  // read and written together
  double overhead = 0.0;          // seconds that an op takes at least
};

enum class Bound : std::uint8_t { compute, memory, overhead };
const char* name_of(Bound bound);

struct Work {
  std::int64_t flop = 0, bytes = 0;
};

// max(flop/(flops·filled), bytes/bytes_per_second) + overhead. `filled`: share of the units that do useful
// work.
double estimated_seconds(const Work& work, const Rates& rates, double filled = 1.0);
// The greatest of the three. Overhead, too, where it was measured to take more than four times the estimate.
Bound bound_of(const Work& work, const Rates& rates, double measured, double filled = 1.0);

using models::filled_up;
using models::kAmx;
using models::kTensorCore;
using models::UnitSize;

// m·n·k over the same sizes filled up to multiples of the unit's: 1 where nothing is idle.
double filled(const ProductSize& size, const UnitSize& unit);

// FLOP for each byte in 16 bits: mnk/(mk + kn + mn).
double intensity(const ProductSize& size);

// A product of a model at some batch; `m` grows with the batch.
struct BatchProduct {
  ProductSize size;
  std::int64_t flop = 0;
};

struct BatchAdvice {
  Index batch = 0;
  double reached = 0.0;  // share of the FLOP in products that do as many FLOP a byte as the machine
};

// The least batch in multiples of `multiple` at which products with 90 % of the FLOP that any batch can bring
// there reach `ridge` FLOP a byte; `at` is the batch of `products`. Not above `most`, what memory holds;
// where that is less than a multiple, `most` itself. Absent where no batch brings a product there.
std::optional<BatchAdvice> batch_for(std::span<const BatchProduct> products, Index at, double ridge,
                                     Index multiple, Index most);

// The greatest batch within 0.9 of memory, from the peaks of two batches, by a line.
Index greatest_batch(Index first, double first_bytes, Index second, double second_bytes, double memory);

// How a step's time divides: products, what is bound by memory, overhead and the host. They add up to 1.
struct StepShares {
  double compute = 0.0, memory = 0.0, overhead = 0.0;
};

// 1/(compute/factor + memory/2 + overhead): how much faster a step is whose products are `factor` times as
// fast and whose tensors have half the bytes.
double step_speedup(const StepShares& shares, double factor);

}  // namespace tandem::advise
