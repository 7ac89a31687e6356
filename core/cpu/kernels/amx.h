// Products of bf16 matrices in AMX tiles, for CPUs of level `amx`.
#pragma once

#include "core/cpu/kernels/simd.h"
#include "core/shape.h"

#if defined(TANDEM_SIMD_BF16_PAIRS) && defined(__x86_64__)
#define TANDEM_AMX 1
#include <immintrin.h>

#include <bit>
#include <cstring>

namespace tandem::cpu::TANDEM_LEVEL {

#define TANDEM_AMX_CODE __attribute__((target("amx-tile,amx-bf16")))

#if defined(__SANITIZE_ADDRESS__)
// Sanitizers do not see the memory that tile instructions access. Plain code stands for them.
struct EmulatedTiles {
  std::uint8_t rows[8];
  alignas(64) std::uint8_t bytes[8][16][64];

  void load(int tile, const void* from, long step) {
    for (long r = 0; r < rows[tile]; ++r)
      std::memcpy(bytes[tile][r], static_cast<const std::uint8_t*>(from) + r * step, 64);
  }
  void store(int tile, void* to, long step) const {
    for (long r = 0; r < rows[tile]; ++r)
      std::memcpy(static_cast<std::uint8_t*>(to) + r * step, bytes[tile][r], 64);
  }
  void zero(int tile) { std::memset(bytes[tile], 0, sizeof bytes[tile]); }
  // sums += a·b
  void multiply(int sums, int a, int b) {
    const auto factor = [&](int tile, int row, int i) {
      std::uint16_t bits;
      std::memcpy(&bits, bytes[tile][row] + 2 * i, sizeof bits);
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    };
    for (int r = 0; r < rows[sums]; ++r) {
      float row[16];
      std::memcpy(row, bytes[sums][r], sizeof row);
      for (int k = 0; k < 32; ++k)
        for (int c = 0; c < 16; ++c) row[c] += factor(a, r, k) * factor(b, k / 2, 2 * c + k % 2);
      std::memcpy(bytes[sums][r], row, sizeof row);
    }
  }
};
inline thread_local EmulatedTiles emulated_tiles;
#undef _tile_loadconfig
#undef _tile_release
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) std::memcpy(emulated_tiles.rows, (config)->rows, sizeof emulated_tiles.rows)
#define _tile_release()
#define _tile_loadd(tile, from, step) emulated_tiles.load(tile, from, step)
#define _tile_stored(tile, to, step) emulated_tiles.store(tile, to, step)
#define _tile_zero(tile) emulated_tiles.zero(tile)
#define _tile_dpbf16ps(sums, a, b) emulated_tiles.multiply(sums, a, b)
#endif

inline constexpr Index kTile = 16;       // rows of a tile; columns of f32
inline constexpr Index kTileDepth = 32;  // columns of bf16

// During its lifetime, all tiles of this thread have 16 rows of 64 bytes, or those of left factors and sums
// the given numbers of rows: tiles 0, 1 and 4 for the first 16 rows of a product, 2, 3 and 5 for the others.
class AmxTiles {
 public:
  TANDEM_AMX_CODE explicit AmxTiles(Index first_rows = kTile, Index other_rows = kTile) {
    struct alignas(64) {
      std::uint8_t palette = 1, start = 0, unused[14] = {};
      std::uint16_t bytes[16] = {};
      std::uint8_t rows[16] = {};
    } config;
    for (int i = 0; i < 8; ++i) {
      config.bytes[i] = 64;
      config.rows[i] = 16;
    }
    for (const int i : {0, 1, 4}) config.rows[i] = static_cast<std::uint8_t>(first_rows);
    for (const int i : {2, 3, 5}) config.rows[i] = static_cast<std::uint8_t>(other_rows);
    asm volatile("" ::"r"(&config) : "memory");  // GCC takes it that only the first bytes are read
    _tile_loadconfig(&config);
  }
  TANDEM_AMX_CODE ~AmxTiles() { _tile_release(); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

// out[rows,16·N] = a[rows,depth]·b[depth,16·N], or += if `accumulate`. Rows up to the next multiple of 16,
// two at most, or those of the tiles; depth a multiple of 32; b as pairs of rows: b[depth/2][16·N][2],
// `b_step` elements apart. Steps count elements.
template <int N>
TANDEM_AMX_CODE inline void multiply_tiles(Index depth, Index rows, const BFloat16* a, Index a_step,
                                           const BFloat16* b, Index b_step, float* out, Index out_step,
                                           bool accumulate) {
  static_assert(N == 1 || N == 2);
  const auto out_bytes = static_cast<long>(out_step * Index(sizeof(float)));
  const auto a_bytes = static_cast<long>(a_step * Index(sizeof(BFloat16)));
  const auto b_bytes = static_cast<long>(b_step * Index(sizeof(BFloat16)));
  float* const below = out + kTile * out_step;
  asm volatile("" ::: "memory");  // GCC does not know the memory of its intrinsics
  if (rows > kTile) {
    if (accumulate) {
      _tile_loadd(0, out, out_bytes);
      if constexpr (N > 1) _tile_loadd(1, out + kTile, out_bytes);
      _tile_loadd(2, below, out_bytes);
      if constexpr (N > 1) _tile_loadd(3, below + kTile, out_bytes);
    } else {
      _tile_zero(0);
      if constexpr (N > 1) _tile_zero(1);
      _tile_zero(2);
      if constexpr (N > 1) _tile_zero(3);
    }
    for (Index k = 0; k < depth; k += kTileDepth, b += kTile * b_step) {
      _tile_loadd(4, a + k, a_bytes);
      _tile_loadd(6, b, b_bytes);
      if constexpr (N > 1) _tile_loadd(7, b + 2 * kTile, b_bytes);
      _tile_loadd(5, a + kTile * a_step + k, a_bytes);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (N > 1) _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (N > 1) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(2, below, out_bytes);
    if constexpr (N > 1) _tile_stored(3, below + kTile, out_bytes);
  } else {
    if (accumulate) {
      _tile_loadd(0, out, out_bytes);
      if constexpr (N > 1) _tile_loadd(1, out + kTile, out_bytes);
    } else {
      _tile_zero(0);
      if constexpr (N > 1) _tile_zero(1);
    }
    for (Index k = 0; k < depth; k += kTileDepth, b += kTile * b_step) {
      _tile_loadd(4, a + k, a_bytes);
      _tile_loadd(6, b, b_bytes);
      if constexpr (N > 1) _tile_loadd(7, b + 2 * kTile, b_bytes);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (N > 1) _tile_dpbf16ps(1, 4, 7);
    }
  }
  _tile_stored(0, out, out_bytes);
  if constexpr (N > 1) _tile_stored(1, out + kTile, out_bytes);
  asm volatile("" ::: "memory");
}

}  // namespace tandem::cpu::TANDEM_LEVEL
#endif
