// Inner loops of the convolution kernels. The sums of a tile of results stay in registers. With the 32 vector
// registers of AVX-512 a tile is several vectors of 16 channels wide; with the 16 of AVX2, two per vector of
// 16 floats, a tile is six pixels by one vector.
#pragma once

#include "core/cpu/kernels/prefetch.h"
#include "core/cpu/kernels/simd.h"

#if defined(TANDEM_SIMD_AVX512) || defined(TANDEM_SIMD_AVX2)
#define TANDEM_OWN_CONVOLUTIONS 1

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "core/shape.h"

namespace tandem::cpu::TANDEM_LEVEL {

#if defined(TANDEM_SIMD_AVX512)
inline constexpr bool kManyRegisters = true;
#else
inline constexpr bool kManyRegisters = false;
#endif

// Vectors per tile for `channels` output channels, a multiple of 16.
constexpr Index tile_vectors(Index channels) {
  if (!kManyRegisters) return 1;
  return channels % 64 == 0 ? 4 : channels % 32 == 0 ? 2 : 1;
}

// Element type of panels and packed filters, and its multiply-add.
struct FloatProducts {
  using Element = float;
  static constexpr Index kDepth = 1;  // channels per element
  static constexpr Index kRun = 0;    // Taps::run if constant, else 0
  static Vec load(const float* p) { return TANDEM_LEVEL::load(p); }
  static Vec broadcast(float x) { return TANDEM_LEVEL::broadcast(x); }
  static Vec multiply_add(Vec a, Vec b, Vec sum) { return fma(a, b, sum); }
};

#if defined(TANDEM_SIMD_BF16_PAIRS)
// Pairs of bf16: an instruction computes twice as many products as with floats.
struct PairProducts {
  using Element = std::uint32_t;
  static constexpr Index kDepth = 2;
  static constexpr Index kRun = kLanes / kDepth;
  static Pairs load(const std::uint32_t* p) { return load_pairs(p); }
  static Pairs broadcast(std::uint32_t x) { return broadcast_pair(x); }
  static Vec multiply_add(Pairs a, Pairs b, Vec sum) { return dot(a, b, sum); }
};
#endif

// Input elements of an output. Each tap is an offset into the panels; in each of `blocks` panels,
// `block_size` apart, it contributes `run` contiguous elements.
struct Taps {
  std::span<const Index> offsets;
  Index blocks, block_size, run;
};

// GCC's predictive commoning would keep shared inputs of neighbouring pixels in registers that the sums need.
#if defined(__GNUC__) && !defined(__clang__)
#define TANDEM_LOAD_ANEW __attribute__((optimize("no-predictive-commoning")))
#else
#define TANDEM_LOAD_ANEW
#endif

// One row of P output pixels by OV·16 output channels, `out_step` apart. Pixel p reads its inputs at in +
// p·PX. Weights are contiguous in the order of the products. `ahead` advances once per element and tap.
template <class Products, int P, int OV, int PX>
TANDEM_LOAD_ANEW void tile(const Taps& taps, const typename Products::Element* in,
                           const typename Products::Element* weights, const float* bias, bool accumulate,
                           float* out, Index out_step, Prefetch& ahead) {
  Prefetch requests = ahead;  // local copy, kept in registers
  Vec sum[P][OV];
#pragma GCC unroll 32
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < OV; ++v) {
      sum[p][v] = bias ? load(bias + v * kLanes) : zero();
      if (accumulate) sum[p][v] = load(out + p * out_step + v * kLanes);
    }
  }
  for (Index block = 0; block < taps.blocks; ++block, in += taps.block_size) {
    for (const Index tap : taps.offsets) {
      const auto* x = in + tap;
      const auto multiply = [&] {
        requests.turn();
        decltype(Products::load(weights)) w[OV];
#pragma GCC unroll 4
        for (int v = 0; v < OV; ++v) w[v] = Products::load(weights + v * kLanes);
#pragma GCC unroll 32
        for (int p = 0; p < P; ++p) {
          const auto value = Products::broadcast(x[p * PX]);
#pragma GCC unroll 4
          for (int v = 0; v < OV; ++v) sum[p][v] = Products::multiply_add(value, w[v], sum[p][v]);
        }
        ++x;
        weights += OV * kLanes;
      };
      if constexpr (Products::kRun > 0) {
#pragma GCC unroll 8
        for (Index c = 0; c < Products::kRun; ++c) multiply();
      } else {
#pragma GCC unroll 1
        for (Index c = 0; c < taps.run; ++c) multiply();
      }
    }
  }
  requests.settle();
  ahead = requests;
#pragma GCC unroll 32
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < OV; ++v) store(out + p * out_step + v * kLanes, sum[p][v]);
  }
}

template <class Products>
using Tile = void (*)(const Taps&, const typename Products::Element*, const typename Products::Element*,
                      const float*, bool, float*, Index, Prefetch&);

// Tile widths in pixels, widest first: the sums, weights and one input of the widest fill the registers.
template <int OV>
inline constexpr std::array<int, 6> kWidths = !kManyRegisters || OV == 4 ? std::array{6, 5, 4, 3, 2, 1}
                                              : OV == 2                  ? std::array{14, 7, 4, 2, 1, 0}
                                                                         : std::array{28, 14, 7, 4, 2, 1};

template <class Products>
struct TileSet {
  std::array<int, 6> widths{};
  std::array<Tile<Products>, 6> tiles{};

  // Computes a row of `count` outputs; the other arguments are those of tile().
  void run(const Taps& taps, Index count, const typename Products::Element* in, Index in_step,
           const typename Products::Element* weights, const float* bias, bool accumulate, float* out,
           Index out_step, Prefetch& ahead) const {
    while (count > 0) {
      const std::size_t i = next(count);
      const Index n = widths[i];
      tiles[i](taps, in, weights, bias, accumulate, out, out_step, ahead);
      count -= n, in += n * in_step, out += n * out_step;
    }
  }

  // Number of tiles of a row.
  Index count(Index pixels) const {
    Index n = 0;
    for (; pixels > 0; pixels -= widths[next(pixels)]) ++n;
    return n;
  }

 private:
  // The widest tile that fits. If every width exists, the row is divided evenly, because tiles of one or two
  // pixels are bound by the latency of their sums.
  std::size_t next(Index count) const {
    const Index widest = widths[0];
    if (widest == static_cast<Index>(widths.size())) {
      const Index shares = (count + widest - 1) / widest;
      return static_cast<std::size_t>(widest - (count + shares - 1) / shares);
    }
    std::size_t i = 0;
    while (widths[i] > count) ++i;
    return i;
  }
};

template <class Products, int OV, int PX>
TileSet<Products> tile_set() {
  TileSet<Products> set{kWidths<OV>, {}};
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((set.tiles[I] = kWidths<OV>[I] ? &tile<Products, std::max(kWidths<OV>[I], 1), OV, PX> : nullptr), ...);
  }
  (std::make_index_sequence<6>());
  return set;
}

// The tiles for neighbouring outputs whose inputs are `step` elements apart: panel pixels at stride 1 and 2,
// and unpadded rows of 1 and 3 channels.
template <class Products, int OV>
TileSet<Products> tile_set(Index step) {
  constexpr int kPixel = kLanes / Products::kDepth;
  if (step == kPixel) return tile_set<Products, OV, kPixel>();
  if (step == 2 * kPixel) return tile_set<Products, OV, 2 * kPixel>();
  if constexpr (Products::kDepth == 1) {
    switch (step) {
      case 6:
        return tile_set<Products, OV, 6>();
      case 3:
        return tile_set<Products, OV, 3>();
      case 2:
        return tile_set<Products, OV, 2>();
      case 1:
        return tile_set<Products, OV, 1>();
      default:
        break;
    }
  }
  return {};
}

template <class Products>
TileSet<Products> tile_set(Index vectors, Index step) {
  if constexpr (kManyRegisters) {
    if (vectors == 4) return tile_set<Products, 4>(step);
    if (vectors == 2) return tile_set<Products, 2>(step);
  }
  return tile_set<Products, 1>(step);
}

// Pixels that a gradient tile sums over: `units` of `rows` rows of `width` elements of one or two pixels.
struct Pixels {
  Index units, rows, width;
  Index x_unit, x_row, x_step;  // strides in the input panel
  Index y_unit, y_row;          // strides in the output panel, where elements are 16 apart
};

// sum[o][v] = Σ over pixels of dy[o] · x[v·16 + lane], added to gradient rows `row_step` apart, of which
// `lanes` columns, at most CV·16, are written. `ahead` advances once per element.
template <class Products, int OB, int CV>
void gradient_tile(const Pixels& n, const typename Products::Element* x, Index x_block,
                   const typename Products::Element* dy, float* gradient, Index row_step, Index lanes,
                   bool accumulate, Prefetch& ahead) {
  Prefetch requests = ahead;  // local copy, kept in registers
  if (accumulate) {
    // Prefetches a gradient that may have left L2, while the tile is summed.
#pragma GCC unroll 16
    for (int o = 0; o < OB; ++o) {
#pragma GCC unroll 2
      for (int v = 0; v < CV; ++v) __builtin_prefetch(gradient + o * row_step + v * kLanes, 1, 3);
    }
  }
  Vec sum[OB][CV];
#pragma GCC unroll 16
  for (int o = 0; o < OB; ++o) {
#pragma GCC unroll 2
    for (int v = 0; v < CV; ++v) sum[o][v] = zero();
  }
  for (Index unit = 0; unit < n.units; ++unit) {
    for (Index row = 0; row < n.rows; ++row) {
      const auto* from = x + unit * n.x_unit + row * n.x_row;
      const auto* with = dy + unit * n.y_unit + row * n.y_row;
#pragma GCC unroll 1
      for (Index i = 0; i < n.width; ++i, from += n.x_step, with += kLanes) {
        requests.turn();
        decltype(Products::load(from)) values[CV];
#pragma GCC unroll 2
        for (int v = 0; v < CV; ++v) values[v] = Products::load(from + v * x_block);
#pragma GCC unroll 16
        for (int o = 0; o < OB; ++o) {
          const auto factor = Products::broadcast(with[o]);
#pragma GCC unroll 2
          for (int v = 0; v < CV; ++v) sum[o][v] = Products::multiply_add(factor, values[v], sum[o][v]);
        }
      }
    }
  }
  requests.settle();
  ahead = requests;
#pragma GCC unroll 16
  for (int o = 0; o < OB; ++o) {
#pragma GCC unroll 2
    for (int v = 0; v < CV; ++v) {
      float* to = gradient + o * row_step + v * kLanes;
      const Index count = lanes - v * kLanes;
      if (count >= kLanes) {
        store(to, accumulate ? load(to) + sum[o][v] : sum[o][v]);
      } else if (count > 0) {
        const int first = static_cast<int>(count);
        store_first(to, accumulate ? load_first(to, first) + sum[o][v] : sum[o][v], first);
      }
    }
  }
}

// Blocks of 16 input channels per gradient tile, and the number of tiles per 16 output channels.
inline constexpr int kGradientBlocks = kManyRegisters ? 2 : 1;
constexpr Index gradient_tile_count(bool pair) { return kManyRegisters ? (pair ? 2 : 1) : 3; }

// The gradient of 16 output channels and two blocks (`pair`) or one block of 16 input channels.
template <class Products>
void gradient_tiles(bool pair, const Pixels& n, const typename Products::Element* x, Index x_block,
                    const typename Products::Element* dy, float* gradient, Index row_step, Index lanes,
                    bool accumulate, Prefetch& ahead) {
  const auto rows = [&]<int OB, int CV>(Index first) {
    gradient_tile<Products, OB, CV>(n, x, x_block, dy + first, gradient + first * row_step, row_step, lanes,
                                    accumulate, ahead);
  };
  if constexpr (!kManyRegisters) {
    rows.template operator()<6, 1>(0);
    rows.template operator()<5, 1>(6);
    rows.template operator()<5, 1>(11);
  } else if (pair) {
    rows.template operator()<8, 2>(0);
    rows.template operator()<8, 2>(8);
  } else {
    rows.template operator()<16, 1>(0);
  }
}

}  // namespace tandem::cpu::TANDEM_LEVEL

#endif
