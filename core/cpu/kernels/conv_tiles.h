// The inner loops of the convolution kernels: a tile of results stays in registers while products are added
// to it. With the 32 vector registers of AVX-512 a tile is several vectors of 16 channels wide; the 16 of
// AVX2, two for a vector, hold six pixels of one.
#pragma once

#include "core/cpu/kernels/simd.h"

#if defined(TANDEM_SIMD_AVX512) || defined(TANDEM_SIMD_AVX2)
#define TANDEM_OWN_CONVOLUTIONS 1

#include <array>
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

// Vectors of output channels that a tile of so many channels, a multiple of 16, is wide.
constexpr Index tile_vectors(Index channels) {
  if (!kManyRegisters) return 1;
  return channels % 64 == 0 ? 4 : channels % 32 == 0 ? 2 : 1;
}

// One row of P output pixels by OV·16 output channels. Pixel p reads its inputs at in + p·PX. A tap is an
// offset from `in`; under each of `blocks` input panels every tap contributes `run` products, whose weights
// follow one another.
template <int P, int OV, int PX>
void tile(const float* in, std::span<const Index> taps, Index blocks, Index block_stride, Index run,
          const float* weights, const float* bias, bool accumulate, float* out, Index out_step) {
  Vec sum[P][OV];
#pragma GCC unroll 32
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < OV; ++v) {
      sum[p][v] = bias ? load(bias + v * kLanes) : zero();
      if (accumulate) sum[p][v] = load(out + p * out_step + v * kLanes);
    }
  }
  for (Index block = 0; block < blocks; ++block, in += block_stride) {
    for (const Index tap : taps) {
      const float* x = in + tap;
#pragma GCC unroll 1
      for (Index c = 0; c < run; ++c, ++x, weights += OV * kLanes) {
        Vec w[OV];
#pragma GCC unroll 4
        for (int v = 0; v < OV; ++v) w[v] = load(weights + v * kLanes);
#pragma GCC unroll 32
        for (int p = 0; p < P; ++p) {
          const Vec value = broadcast(x[p * PX]);
#pragma GCC unroll 4
          for (int v = 0; v < OV; ++v) sum[p][v] = fma(value, w[v], sum[p][v]);
        }
      }
    }
  }
#pragma GCC unroll 32
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < OV; ++v) store(out + p * out_step + v * kLanes, sum[p][v]);
  }
}

using Tile = void (*)(const float*, std::span<const Index>, Index, Index, Index, const float*, const float*,
                      bool, float*, Index);

// Widths of tiles, widest first: the sums of a tile and its weights fill the registers.
template <int OV>
inline constexpr std::array<int, 6> kWidths = !kManyRegisters ? std::array{6, 4, 3, 2, 1, 0}
                                              : OV == 4       ? std::array{7, 4, 2, 1, 0, 0}
                                              : OV == 2       ? std::array{14, 7, 4, 2, 1, 0}
                                                              : std::array{28, 14, 7, 4, 2, 1};

struct TileSet {
  std::array<int, 6> widths{};
  std::array<Tile, 6> tiles{};
};

template <int OV, int PX>
TileSet tile_set() {
  TileSet set{kWidths<OV>, {}};
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((set.tiles[I] = kWidths<OV>[I] ? &tile<std::max(kWidths<OV>[I], 1), OV, PX> : nullptr), ...);
  }
  (std::make_index_sequence<6>());
  return set;
}

template <int OV>
TileSet tile_set(Index pixel_step) {
  switch (pixel_step) {
    case 16:
      return tile_set<OV, 16>();
    case 32:
      return tile_set<OV, 32>();
    case 6:
      return tile_set<OV, 6>();
    case 3:
      return tile_set<OV, 3>();
    case 2:
      return tile_set<OV, 2>();
    case 1:
      return tile_set<OV, 1>();
    default:
      return {};
  }
}

inline TileSet tile_set(Index vectors, Index pixel_step) {
  if constexpr (kManyRegisters) {
    if (vectors == 4) return tile_set<4>(pixel_step);
    if (vectors == 2) return tile_set<2>(pixel_step);
  }
  return tile_set<1>(pixel_step);
}

// The pixels that a tile sums over: `units` of `rows` of `width`.
struct Pixels {
  Index units, rows, width;
  Index x_unit, x_row, x_step;  // distances in the input panel
  Index y_unit, y_row;          // and in the output panel, where pixels are 16 apart
};

// sum[o][v] = Σ over pixels of dy[o] · x[v·16 + lane], into gradient rows `row_step` apart, of which `lanes`
// columns, at most CV·16, are written.
template <int OB, int CV>
void gradient_tile(const Pixels& n, const float* x, Index x_block, const float* dy, float* gradient,
                   Index row_step, Index lanes, bool accumulate) {
  Vec sum[OB][CV];
#pragma GCC unroll 16
  for (int o = 0; o < OB; ++o) {
#pragma GCC unroll 2
    for (int v = 0; v < CV; ++v) sum[o][v] = zero();
  }
  for (Index unit = 0; unit < n.units; ++unit) {
    for (Index row = 0; row < n.rows; ++row) {
      const float* from = x + unit * n.x_unit + row * n.x_row;
      const float* with = dy + unit * n.y_unit + row * n.y_row;
#pragma GCC unroll 1
      for (Index i = 0; i < n.width; ++i, from += n.x_step, with += kLanes) {
        Vec values[CV];
#pragma GCC unroll 2
        for (int v = 0; v < CV; ++v) values[v] = load(from + v * x_block);
#pragma GCC unroll 16
        for (int o = 0; o < OB; ++o) {
          const Vec factor = broadcast(with[o]);
#pragma GCC unroll 2
          for (int v = 0; v < CV; ++v) sum[o][v] = fma(factor, values[v], sum[o][v]);
        }
      }
    }
  }
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

// Blocks of 16 input channels that a tile of the gradient takes at once.
inline constexpr int kGradientBlocks = kManyRegisters ? 2 : 1;

// The gradient of 16 output channels and, with `pair`, two blocks of 16 input channels, or else one.
inline void gradient_tiles(bool pair, const Pixels& n, const float* x, Index x_block, const float* dy,
                           float* gradient, Index row_step, Index lanes, bool accumulate) {
  if constexpr (kManyRegisters) {
    if (!pair) return gradient_tile<16, 1>(n, x, x_block, dy, gradient, row_step, lanes, accumulate);
    gradient_tile<8, 2>(n, x, x_block, dy, gradient, row_step, lanes, accumulate);
    gradient_tile<8, 2>(n, x, x_block, dy + 8, gradient + 8 * row_step, row_step, lanes, accumulate);
  } else {
    gradient_tile<6, 1>(n, x, x_block, dy, gradient, row_step, lanes, accumulate);
    gradient_tile<5, 1>(n, x, x_block, dy + 6, gradient + 6 * row_step, row_step, lanes, accumulate);
    gradient_tile<5, 1>(n, x, x_block, dy + 11, gradient + 11 * row_step, row_step, lanes, accumulate);
  }
}

}  // namespace tandem::cpu::TANDEM_LEVEL

#endif
