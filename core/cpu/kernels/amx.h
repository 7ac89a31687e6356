// Products of bf16 matrices in AMX tiles, for CPUs of level `amx`.
#pragma once

#include "core/cpu/kernels/simd.h"
#include "core/shape.h"

#if defined(TANDEM_SIMD_BF16_PAIRS) && defined(__x86_64__)
#define TANDEM_AMX 1
#include <immintrin.h>

namespace tandem::cpu::TANDEM_LEVEL {

#define TANDEM_AMX_CODE __attribute__((target("amx-tile,amx-bf16")))

inline constexpr Index kTile = 16;       // rows of a tile; columns of f32
inline constexpr Index kTileDepth = 32;  // columns of bf16

// During its lifetime, all tiles of this thread have 16 rows of 64 bytes.
class AmxTiles {
 public:
  TANDEM_AMX_CODE AmxTiles() {
    struct alignas(64) {
      std::uint8_t palette = 1, start = 0, unused[14] = {};
      std::uint16_t bytes[16] = {};
      std::uint8_t rows[16] = {};
    } config;
    for (int i = 0; i < 8; ++i) {
      config.bytes[i] = 64;
      config.rows[i] = 16;
    }
    asm volatile("" ::"r"(&config) : "memory");  // GCC takes it that only the first bytes are read
    _tile_loadconfig(&config);
  }
  TANDEM_AMX_CODE ~AmxTiles() { _tile_release(); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

// out[rows,32] = a[rows,depth]·b[depth,32], or += if `accumulate`. Rows of 16 or 32; depth a multiple of 32;
// b as pairs of rows: b[depth/2][32][2]. Steps count elements.
TANDEM_AMX_CODE inline void multiply_tiles(Index depth, Index rows, const BFloat16* a, Index a_step,
                                           const BFloat16* b, float* out, Index out_step, bool accumulate) {
  constexpr Index kPairs = 2 * kTile * 2;  // elements of b for two values of k
  const auto out_bytes = static_cast<long>(out_step * Index(sizeof(float)));
  const auto a_bytes = static_cast<long>(a_step * Index(sizeof(BFloat16)));
  constexpr long kBytes = kPairs * long(sizeof(BFloat16));
  asm volatile("" ::: "memory");  // GCC does not know the memory of its intrinsics
  if (rows > kTile) {
    if (accumulate) {
      _tile_loadd(0, out, out_bytes);
      _tile_loadd(1, out + kTile, out_bytes);
      _tile_loadd(2, out + kTile * out_step, out_bytes);
      _tile_loadd(3, out + kTile * out_step + kTile, out_bytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    for (Index k = 0; k < depth; k += kTileDepth, b += kTile * kPairs) {
      _tile_loadd(4, a + k, a_bytes);
      _tile_loadd(6, b, kBytes);
      _tile_loadd(7, b + 2 * kTile, kBytes);
      _tile_loadd(5, a + kTile * a_step + k, a_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(2, out + kTile * out_step, out_bytes);
    _tile_stored(3, out + kTile * out_step + kTile, out_bytes);
  } else {
    if (accumulate) {
      _tile_loadd(0, out, out_bytes);
      _tile_loadd(1, out + kTile, out_bytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
    }
    for (Index k = 0; k < depth; k += kTileDepth, b += kTile * kPairs) {
      _tile_loadd(4, a + k, a_bytes);
      _tile_loadd(6, b, kBytes);
      _tile_loadd(7, b + 2 * kTile, kBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
  }
  _tile_stored(0, out, out_bytes);
  _tile_stored(1, out + kTile, out_bytes);
  asm volatile("" ::: "memory");
}

}  // namespace tandem::cpu::TANDEM_LEVEL
#endif
