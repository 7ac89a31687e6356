// The inner loops of the convolution kernels for AVX-512: a tile of results stays in registers while products
// are added to it.
#pragma once

#ifdef __AVX512F__

#include <immintrin.h>

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "core/cpu/simd.h"
#include "core/shape.h"

namespace tandem::cpu {

// One row of P output pixels by OV·16 output channels. Pixel p reads its inputs at in + p·PX. A tap is an
// offset from `in`; under each of `blocks` input panels every tap contributes `run` products, whose weights
// follow one another.
template <int P, int OV, int PX>
void tile(const float* in, std::span<const Index> taps, Index blocks, Index block_stride, Index run,
          const float* weights, const float* bias, bool accumulate, float* out, Index out_step) {
  __m512 sum[P][OV];
#pragma GCC unroll 32
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < OV; ++v) {
      sum[p][v] = bias ? _mm512_loadu_ps(bias + v * kLanes) : _mm512_setzero_ps();
      if (accumulate) sum[p][v] = _mm512_loadu_ps(out + p * out_step + v * kLanes);
    }
  }
  for (Index block = 0; block < blocks; ++block, in += block_stride) {
    for (const Index tap : taps) {
      const float* x = in + tap;
#pragma GCC unroll 1
      for (Index c = 0; c < run; ++c, ++x, weights += OV * kLanes) {
        __m512 w[OV];
#pragma GCC unroll 4
        for (int v = 0; v < OV; ++v) w[v] = _mm512_load_ps(weights + v * kLanes);
#pragma GCC unroll 32
        for (int p = 0; p < P; ++p) {
          const __m512 value = _mm512_set1_ps(x[p * PX]);
#pragma GCC unroll 4
          for (int v = 0; v < OV; ++v) sum[p][v] = _mm512_fmadd_ps(value, w[v], sum[p][v]);
        }
      }
    }
  }
#pragma GCC unroll 32
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < OV; ++v) _mm512_storeu_ps(out + p * out_step + v * kLanes, sum[p][v]);
  }
}

using Tile = void (*)(const float*, std::span<const Index>, Index, Index, Index, const float*, const float*,
                      bool, float*, Index);

// Widths of tiles, widest first: the sums of a tile and its weights fill the registers.
template <int OV>
inline constexpr std::array<int, 6> kWidths = OV == 4   ? std::array{7, 4, 2, 1, 0, 0}
                                              : OV == 2 ? std::array{14, 7, 4, 2, 1, 0}
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
  return vectors == 4   ? tile_set<4>(pixel_step)
         : vectors == 2 ? tile_set<2>(pixel_step)
                        : tile_set<1>(pixel_step);
}

// The pixels that a tile sums over: `units` of `rows` of `width`.
struct Pixels {
  Index units, rows, width;
  Index x_unit, x_row, x_step;  // distances in the input panel
  Index y_unit, y_row;          // and in the output panel, where pixels are 16 apart
};

// sum[o][v] = Σ over pixels of dy[o] · x[v·16 + lane], into gradient rows `row_step` apart.
template <int OB, int CV>
void gradient_tile(const Pixels& n, const float* x, Index x_block, const float* dy, float* gradient,
                   Index row_step, std::uint32_t lanes, bool accumulate) {
  __m512 sum[OB][CV];
#pragma GCC unroll 16
  for (int o = 0; o < OB; ++o) {
#pragma GCC unroll 2
    for (int v = 0; v < CV; ++v) sum[o][v] = _mm512_setzero_ps();
  }
  for (Index unit = 0; unit < n.units; ++unit) {
    for (Index row = 0; row < n.rows; ++row) {
      const float* from = x + unit * n.x_unit + row * n.x_row;
      const float* with = dy + unit * n.y_unit + row * n.y_row;
#pragma GCC unroll 1
      for (Index i = 0; i < n.width; ++i, from += n.x_step, with += kLanes) {
        __m512 values[CV];
#pragma GCC unroll 2
        for (int v = 0; v < CV; ++v) values[v] = _mm512_loadu_ps(from + v * x_block);
#pragma GCC unroll 16
        for (int o = 0; o < OB; ++o) {
          const __m512 factor = _mm512_set1_ps(with[o]);
#pragma GCC unroll 2
          for (int v = 0; v < CV; ++v) sum[o][v] = _mm512_fmadd_ps(factor, values[v], sum[o][v]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int o = 0; o < OB; ++o) {
#pragma GCC unroll 2
    for (int v = 0; v < CV; ++v) {
      const auto mask = static_cast<__mmask16>(lanes >> (v * kLanes));
      float* to = gradient + o * row_step + v * kLanes;
      const __m512 before = accumulate ? _mm512_maskz_loadu_ps(mask, to) : _mm512_setzero_ps();
      _mm512_mask_storeu_ps(to, mask, _mm512_add_ps(sum[o][v], before));
    }
  }
}

}  // namespace tandem::cpu

#endif
