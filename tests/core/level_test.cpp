// Instruction level of the kernels: the CPU's, TANDEM_ISA's, the build's.
#include "core/cpu/level.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "core/backend.h"
#include "tests/support/errors.h"

using namespace tandem;
using cpu::Level;

namespace {

constexpr std::array kAll = {Level::v2, Level::v3, Level::v4, Level::v4_bf16};

cpu::CpuFeatures with(Level level) { return cpu::features_of(level); }

}  // namespace

TEST_CASE("a level is what its features make it, and holds all below", "[level]") {
  for (const Level level : {Level::v2, Level::v3, Level::v4, Level::v4_bf16, Level::amx}) {
    CHECK(cpu::highest_level(with(level)) == level);
    CHECK(cpu::level_named(cpu::name_of(level)) == level);
  }
  CHECK_FALSE(cpu::highest_level({}).has_value());
  CHECK_FALSE(cpu::level_named("avx2").has_value());
  cpu::CpuFeatures knights_landing = with(Level::v3);  // AVX-512 without BW, DQ and VL
  knights_landing.avx512f = knights_landing.avx512cd = true;
  CHECK(cpu::highest_level(knights_landing) == Level::v3);
  cpu::CpuFeatures no_f16c = with(Level::v4);
  no_f16c.f16c = false;
  CHECK(cpu::highest_level(no_f16c) == Level::v2);
  CHECK_FALSE(cpu::has_bf16_products(Level::v4));
  CHECK(cpu::has_bf16_products(Level::v4_bf16));
}

TEST_CASE("the best level of the CPU is chosen, or a lower one by name", "[level]") {
  for (const Level level : {Level::v2, Level::v3, Level::v4, Level::v4_bf16, Level::amx}) {
    const cpu::LevelChoice own = cpu::choose_level("", with(level), kAll);
    CHECK(own.level == level);
    CHECK(own.is_best);
    CHECK(cpu::choose_level("v2", with(level), kAll).level == Level::v2);
  }
  const cpu::LevelChoice asked = cpu::choose_level("v3", with(Level::v4_bf16), kAll);
  CHECK(asked.level == Level::v3);
  CHECK_FALSE(asked.is_best);
  CHECK(asked.reason == "TANDEM_ISA=v3; this CPU has v4_bf16");
}

TEST_CASE("a build without the CPU's level takes the next lower one, and says so", "[level]") {
  constexpr std::array some = {Level::v2, Level::v3};
  const cpu::LevelChoice lowered = cpu::choose_level("", with(Level::amx), some);
  CHECK(lowered.level == Level::v3);
  CHECK_FALSE(lowered.is_best);
  CHECK_THAT(lowered.reason, Catch::Contains("amx") && Catch::Contains("TANDEM_LEVELS=all"));
  constexpr std::array least = {Level::v2};
  CHECK(cpu::choose_level("", with(Level::v3), least).level == Level::v2);
  CHECK_FAILS(UserError, cpu::choose_level("", with(Level::v3), std::array{Level::v4_bf16}),
              "this CPU has v3, but this build has kernels for v4_bf16 only; build on this CPU, or with "
              "-DTANDEM_LEVELS=all");
  CHECK_FAILS(UserError, cpu::choose_level("", with(Level::v3), {}),
              "this build has kernels for no level only");
  // AMX has the kernels of v4_bf16.
  constexpr std::array best = {Level::v2, Level::v4_bf16};
  CHECK(cpu::choose_level("", with(Level::amx), best).level == Level::amx);
  CHECK_FAILS(UserError, cpu::choose_level("v4", with(Level::amx), best),
              "TANDEM_ISA] this build has no kernels for v4; available levels: v2, v4_bf16, amx");
}

TEST_CASE("a level that is none, or above the CPU, is refused with those that there are", "[level]") {
  CHECK_FAILS(UserError, cpu::choose_level("avx2", with(Level::v4), kAll),
              "TANDEM_ISA] \"avx2\" is not a level; available levels: v2, v3, v4");
  CHECK_FAILS(
      UserError, cpu::choose_level("v4", with(Level::v3), kAll),
      "TANDEM_ISA] this CPU does not support v4: it lacks avx512f, avx512bw, avx512cd, avx512dq, avx512vl; "
      "available levels: v2, v3");
  cpu::CpuFeatures old = with(Level::v2);
  old.sse4_2 = false;
  CHECK_FAILS(UserError, cpu::choose_level("", old, kAll), "lacks sse4_2; Tandem needs x86-64-v2 or better");
}

TEST_CASE("this process computes with a level that CPU and build have", "[level]") {
  const cpu::LevelChoice& choice = cpu::level_choice();
  CHECK(choice.level <= *cpu::highest_level(cpu::cpu_features()));
  REQUIRE_FALSE(cpu::levels_built().empty());
  CHECK(std::ranges::is_sorted(cpu::levels_built()));
  CHECK(&cpu::backend() == &backend_for({}));
}
