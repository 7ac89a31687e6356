// Instruction set levels of Tandem's kernels, and the level of this process.
//
// Code outside core/cpu/kernels is compiled for x86-64-v2. The kernels are compiled for each level of the
// build, into separate libraries (libtandem_cpu_v3.so, …). The first computation opens the library of its
// level, so that no CPU executes instructions (including static initialisers) of a level it lacks. The level
// also limits oneDNN. Tandem's own kernels give the same bits on every machine of one level; products by
// oneDNN and Eigen also depend on cache sizes. Bits differ between levels.
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

// x86-64-v2 (SSE4.2), v3 (AVX2, FMA, F16C), v4 (AVX-512 F, BW, CD, DQ, VL), v4 with AVX512-BF16, and that
// with AMX. Tandem's kernels are then those of v4_bf16, of which attention uses AMX, too
// (core/cpu/kernels/amx.h).
enum class Level : std::uint8_t { v2, v3, v4, v4_bf16, amx };

// Names as in TANDEM_ISA: "v2", "v3", "v4", "v4_bf16", "amx".
std::string_view name_of(Level level);
std::optional<Level> level_named(std::string_view name);

// Required CPU features, including those of all lower levels.
CpuFeatures features_of(Level level);

// The highest level of a CPU with these features; absent if below v2.
std::optional<Level> highest_level(const CpuFeatures& features);

struct LevelChoice {
  Level level;
  std::string reason;  // for display: "the highest level of this CPU", "TANDEM_ISA=v3; this CPU has v4", …
  bool is_best;        // the CPU has no higher level
};

// Returns level `asked` (TANDEM_ISA), or the highest level of both CPU and build. Throws UserError for an
// unknown name, a level that the CPU or the build lacks, a CPU below v2 and a build above the CPU.
LevelChoice choose_level(std::string_view asked, const CpuFeatures& features, std::span<const Level> built);

// Levels with kernels in this installation, lowest first.
std::span<const Level> levels_built();

// The level of this process, fixed by the first call. Throws like choose_level.
const LevelChoice& level_choice();
inline Level level() { return level_choice().level; }

// Whether this level multiplies bf16 in hardware; otherwise bf16 is widened to f32 first.
inline bool has_bf16_products(Level level) { return level >= Level::v4_bf16; }

// The CPU's backend with the kernels of level().
Backend& backend();

}  // namespace tandem::cpu
