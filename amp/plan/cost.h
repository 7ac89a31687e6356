// What types cost, as plain numbers: seconds from elements, bytes and floating-point operations.
#pragma once

#include <cstdint>

#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// What one machine can do. Measured, or of another machine.
struct Rates {
  double bytes_per_second = 0.0;  // read and written together
  std::int64_t launch_ns = 0;     // α: of an empty kernel, queued behind others
};

// A tensor of `elements` that is written unless it is a view's, and read `reads` times by what takes either
// type: 2 more bytes an element and access when it is f32, and the same for its gradient.
std::int64_t storage_ns(const Rates& rates, std::int64_t elements, int reads, bool written, bool gradient);
// A cast reads 4 bytes an element and writes 2, or the other way round; its gradient does as well.
std::int64_t cast_ns(const Rates& rates, std::int64_t elements, bool gradient);
// A 16-bit working copy of a parameter, which the update writes while it has the master at hand.
std::int64_t working_copy_ns(const Rates& rates, std::int64_t elements);

// The graph with these prices for every result; the times of ops stay as they are.
Graph priced(Graph graph, const Rates& rates);

// Differences between an op's two times that measuring again might turn round count as none: what is decided
// is then the same after the next measurement.
struct DeadBand {
  std::int64_t ns = 200;
  double share = 0.02;  // of the f32 time
};

// The graph where the 16-bit time of a product is its f32 time if they differ by less than the greater of the
// two bounds.
Graph without_noise(Graph graph, const DeadBand& band = {});

// ---- A bound where nothing was measured

// Extents of a product [M,K]·[K,N], and what they are rounded up to by its tiles.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
};

struct Tiles {
  ProductShape granule{1, 1, 1};        // extents are padded to multiples of these
  std::int64_t tile_m = 1, tile_n = 1;  // of the result, by one unit at a time
  std::int64_t units = 1;
};

// Shares of the peak that are left: useful among padded operations, and tiles among those that whole waves of
// all units would have done. Both in (0, 1]; 1 for a product without elements.
double padding_share(const ProductShape& shape, const ProductShape& granule);
double wave_share(const ProductShape& shape, const Tiles& tiles);

enum class Bound : std::uint8_t { compute, memory, overhead };

struct Estimate {
  double ns = 0.0;
  Bound bound = Bound::memory;  // the largest part; of equals the first of compute, memory, overhead
};

// max(flop / (flops · useful share), bytes / bandwidth) + α. `flops` is the peak for the type, a second.
Estimate roofline(const Rates& rates, double flop, double flops, double useful_share, double bytes);
// And of an op that was measured: more than four times its roofline is overhead.
Bound bound_of(const Estimate& estimate, double measured_ns);

// What the whole step gains when the shares of it that compute and memory bound run `compute` and 2 times as
// fast; the rest stays as it is.
double step_speedup(double compute_share, double memory_share, double compute);

}  // namespace tandem::amp::plan
