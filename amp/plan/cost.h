// Cost model of types: time from elements, bytes and floating-point operations.
#pragma once

#include <cstdint>

#include "amp/plan/graph.h"

namespace tandem::amp::plan {

// Rates of a machine, measured or given.
struct Rates {
  double bytes_per_second = 0.0;  // read plus written
  std::int64_t launch_ns = 0;     // α: of an empty kernel in a queue
};

// Extra time in f32 of a tensor of `elements` that is written (unless it is a view) and read `reads` times by
// readers of either type: 2 more bytes per element and access, and the same for its gradient.
std::int64_t storage_ns(const Rates& rates, std::int64_t elements, int reads, bool written, bool gradient);
// A cast reads 4 bytes an element and writes 2, or the reverse; so does its gradient.
std::int64_t cast_ns(const Rates& rates, std::int64_t elements, bool gradient);
// A 16-bit working copy of a parameter, written by the update from the master in registers.
std::int64_t working_copy_ns(const Rates& rates, std::int64_t elements);

// Sets these prices for every result; the times of ops stay.
Graph priced(Graph graph, const Rates& rates);

// Dead band: differences between an op's two times that are within measurement noise count as zero, so that
// decisions repeat after a new measurement.
struct DeadBand {
  std::int64_t ns = 200;
  double share = 0.02;  // of the f32 time
};

// Sets the 16-bit time of a product to its f32 time if they differ by less than the larger of the two bounds.
Graph without_noise(Graph graph, const DeadBand& band = {});

// Extents of a product [M,K]·[K,N], and its tile sizes.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
};

struct Tiles {
  ProductShape granule{1, 1, 1};        // extents are padded to multiples of these
  std::int64_t tile_m = 1, tile_n = 1;  // tile of the result per unit
  std::int64_t units = 1;
};

// Remaining shares of the peak: useful operations after padding, and occupied tiles in whole waves of all
// units. Both in (0, 1]; 1 for an empty product.
double padding_share(const ProductShape& shape, const ProductShape& granule);
double wave_share(const ProductShape& shape, const Tiles& tiles);

enum class Bound : std::uint8_t { compute, memory, overhead };

struct Estimate {
  double ns = 0.0;
  Bound bound = Bound::memory;  // the largest part; on ties the first of compute, memory, overhead
};

// max(flop / (flops · useful share), bytes / bandwidth) + α. `flops`: peak of the type per second.
Estimate roofline(const Rates& rates, double flop, double flops, double useful_share, double bytes);
// Bound of a measured op: above four times its roofline it is overhead.
Bound bound_of(const Estimate& estimate, double measured_ns);

// Speedup of the whole step when its compute-bound share runs `compute` times and its memory-bound share 2
// times as fast.
double step_speedup(double compute_share, double memory_share, double compute);

}  // namespace tandem::amp::plan
