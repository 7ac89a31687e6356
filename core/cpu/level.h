// The instruction sets that Tandem's kernels are compiled for, and the one that this process computes with.
//
// Everything outside core/cpu/kernels is compiled for x86-64-v2. What lies there is compiled once more for
// each further level of the build, into a library of its own (libtandem_cpu_v3.so, …) that is opened when the
// first tensor is computed on, so that no instruction of a level, static initialisers included, is met by a
// CPU that lacks it. The level holds for oneDNN as well. Sums and roundings of Tandem's kernels of one level
// are the same on every machine; products of oneDNN and Eigen are blocked by the sizes of caches, too. Those
// of two levels differ.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/cpu/cpu_features.h"

namespace tandem {
class Backend;
}

namespace tandem::cpu {

// x86-64-v2 (SSE4.2), v3 (AVX2, FMA, F16C), v4 (AVX-512 F, BW, CD, DQ, VL), v4 with AVX512-BF16; and that
// with AMX, which oneDNN alone uses, beside Tandem's kernels of v4_bf16.
enum class Level : std::uint8_t { v2, v3, v4, v4_bf16, amx };

// "v2", "v3", "v4", "v4_bf16", "amx": as TANDEM_ISA names them.
std::string_view name_of(Level level);
std::optional<Level> level_named(std::string_view name);

// What a CPU must have for a level; every level has all of those below it.
CpuFeatures features_of(Level level);

// The highest level of a CPU with these features; absent below v2.
std::optional<Level> highest_level(const CpuFeatures& features);

struct LevelChoice {
  Level level;
  std::string reason;  // for people: "this CPU's own", "TANDEM_ISA=v3; this CPU has v4", …
  bool is_best;        // whether the CPU has no better one
};

// The rule: `asked` (TANDEM_ISA), or else the highest level that both the CPU and the build have. Throws
// UserError for a name that is none, a level that the CPU or the build lacks, and a CPU below v2.
LevelChoice choose_level(std::string_view asked, const CpuFeatures& features, std::span<const Level> built);

// The levels whose kernels lie beside this library, lowest first; v2 always.
std::span<const Level> levels_built();

// What this process computes with, fixed at the first call. Throws as choose_level.
const LevelChoice& level_choice();
inline Level level() { return level_choice().level; }

// Whether bf16 is multiplied in hardware at this level; elsewhere it is widened to f32 first.
inline bool has_bf16_products(Level level) { return level >= Level::v4_bf16; }

// The CPU's backend with the kernels of level().
Backend& backend();

}  // namespace tandem::cpu
