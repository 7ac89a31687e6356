#include "core/cpu/level.h"

#include <array>
#include <cstdlib>
#include <vector>

#include "core/backend.h"
#include "core/device_library.h"
#include "core/error.h"

namespace tandem::cpu {

namespace {

constexpr std::array kLevels = {Level::v2, Level::v3, Level::v4, Level::v4_bf16, Level::amx};
constexpr std::array<std::string_view, kLevels.size()> kNames = {"v2", "v3", "v4", "v4_bf16", "amx"};

constexpr std::string_view kAddLevels = "-DTANDEM_LEVELS=all";

// The level whose Tandem kernels `level` uses.
Level kernels_of(Level level) { return level == Level::amx ? Level::v4_bf16 : level; }

std::filesystem::path library_of(Level level) {
  return folder_of_core_library() / fmt::format("libtandem_cpu_{}.so", name_of(level));
}

std::string list_of(std::span<const Level> levels) {
  std::string text;
  for (const Level level : levels) text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(level));
  return text;
}

// Available levels up to `highest`.
std::vector<Level> usable_levels(Level highest, std::span<const Level> built) {
  std::vector<Level> usable;
  for (const Level level : kLevels)
    if (level <= highest && std::find(built.begin(), built.end(), kernels_of(level)) != built.end())
      usable.push_back(level);
  return usable;
}

Backend& open_backend() {
  const Level kernels = kernels_of(level());
  const OpenedLibrary opened = open_device_library(library_of(kernels));
  if (!opened.library) throw UserError("cpu", opened.why_none);
  return opened.library->backend(0);
}

}  // namespace

std::string_view name_of(Level level) { return kNames[static_cast<std::size_t>(level)]; }

std::optional<Level> level_named(std::string_view name) {
  for (const Level level : kLevels)
    if (name_of(level) == name) return level;
  return std::nullopt;
}

CpuFeatures features_of(Level level) {
  CpuFeatures f;
  f.ssse3 = f.sse4_1 = f.sse4_2 = f.popcnt = true;
  if (level >= Level::v3) f.avx = f.avx2 = f.fma = f.f16c = f.movbe = f.bmi1 = f.bmi2 = f.lzcnt = true;
  if (level >= Level::v4) f.avx512f = f.avx512bw = f.avx512cd = f.avx512dq = f.avx512vl = true;
  if (level >= Level::v4_bf16) f.avx512_bf16 = true;
  if (level >= Level::amx) f.amx_tile = f.amx_bf16 = true;
  return f;
}

std::optional<Level> highest_level(const CpuFeatures& features) {
  std::optional<Level> highest;
  for (const Level level : kLevels) {
    if (!missing_features(features_of(level), features).empty()) break;
    highest = level;
  }
  return highest;
}

LevelChoice choose_level(std::string_view asked, const CpuFeatures& features, std::span<const Level> built) {
  const std::optional<Level> own = highest_level(features);
  require(own.has_value(), "cpu", "\"{}\" lacks {}; Tandem needs x86-64-v2 or better", cpu_model(),
          missing_features(features_of(Level::v2), features));
  const std::vector<Level> usable = usable_levels(*own, built);
  require(!usable.empty(), "cpu",
          "this CPU has {}, but this build has kernels for {} only; build on this CPU, or with {}",
          name_of(*own), built.empty() ? "no level" : list_of(built), kAddLevels);
  if (asked.empty()) {
    const Level chosen = usable.back();
    if (chosen == *own) return {chosen, "the highest level of this CPU", true};
    return {chosen,
            fmt::format("this CPU has {}, but this build lacks kernels for it ({} adds them)", name_of(*own),
                        kAddLevels),
            false};
  }
  const std::optional<Level> named = level_named(asked);
  require(named.has_value(), "TANDEM_ISA", "\"{}\" is not a level; available levels: {}", asked,
          list_of(usable));
  require(*named <= *own, "TANDEM_ISA", "this CPU does not support {}: it lacks {}; available levels: {}",
          asked, missing_features(features_of(*named), features), list_of(usable));
  require(std::find(usable.begin(), usable.end(), *named) != usable.end(), "TANDEM_ISA",
          "this build has no kernels for {}; available levels: {}", asked, list_of(usable));
  return {*named, fmt::format("TANDEM_ISA={}; this CPU has {}", asked, name_of(*own)), *named == *own};
}

std::span<const Level> levels_built() {
  static const std::vector<Level> built = [] {
    std::vector<Level> found;
    std::error_code ignored;
    for (const Level level : {Level::v2, Level::v3, Level::v4, Level::v4_bf16})
      if (std::filesystem::exists(library_of(level), ignored)) found.push_back(level);
    return found;
  }();
  return built;
}

const LevelChoice& level_choice() {
  static const LevelChoice choice = [] {
    CpuFeatures features = cpu_features();
    if (request_amx() != AmxPermission::granted) features.amx_tile = false;
    const char* const asked = std::getenv("TANDEM_ISA");
    return choose_level(asked ? asked : "", features, levels_built());
  }();
  return choice;
}

Backend& backend() {
  static Backend& backend = open_backend();
  return backend;
}

}  // namespace tandem::cpu
