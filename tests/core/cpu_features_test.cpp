// Feature detection against the kernel's own list, and the settings that follow.
#include "core/cpu/cpu_features.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/cpu/parallel.h"
#include "core/error.h"

using namespace tandem;

TEST_CASE("detected features are those the kernel lists", "[cpu_features]") {
  std::ifstream info("/proc/cpuinfo");
  std::string flags;
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("flags")) flags = line + ' ';
  }
  if (flags.empty()) return;  // not x86: there is no such line
  const cpu::CpuFeatures& f = cpu::cpu_features();
  const auto listed = [&](const char* name) {
    return flags.find(std::string(" ") + name + ' ') != std::string::npos;
  };
  CHECK(f.ssse3 == listed("ssse3"));
  CHECK(f.sse4_1 == listed("sse4_1"));
  CHECK(f.sse4_2 == listed("sse4_2"));
  CHECK(f.popcnt == listed("popcnt"));
  CHECK(f.movbe == listed("movbe"));
  CHECK(f.bmi1 == listed("bmi1"));
  CHECK(f.lzcnt == listed("abm"));
  CHECK(f.avx512cd == listed("avx512cd"));
  CHECK(f.avx == listed("avx"));
  CHECK(f.avx2 == listed("avx2"));
  CHECK(f.fma == listed("fma"));
  CHECK(f.f16c == listed("f16c"));
  CHECK(f.bmi2 == listed("bmi2"));
  CHECK(f.avx512f == listed("avx512f"));
  CHECK(f.avx512bw == listed("avx512bw"));
  CHECK(f.avx512dq == listed("avx512dq"));
  CHECK(f.avx512vl == listed("avx512vl"));
  CHECK(f.avx512_vnni == listed("avx512_vnni"));
  CHECK(f.avx512_bf16 == listed("avx512_bf16"));
  CHECK(f.avx512_fp16 == listed("avx512_fp16"));
  CHECK(f.amx_tile == listed("amx_tile"));
  CHECK(f.amx_bf16 == listed("amx_bf16"));
  CHECK(f.amx_int8 == listed("amx_int8"));
}

TEST_CASE("the AMX permission follows the CPU and is asked for once", "[cpu_features]") {
  const auto first = cpu::request_amx();
  CHECK((first == cpu::AmxPermission::unsupported) == !cpu::cpu_features().amx_tile);
  CHECK(cpu::request_amx() == first);
  CHECK(cpu::name_of(cpu::AmxPermission::granted) == "granted");
}

TEST_CASE("names, counts and denormals", "[cpu_features]") {
  cpu::CpuFeatures f;
  f.avx2 = f.amx_bf16 = true;
  CHECK(cpu::names_of(f) == std::vector<std::string_view>{"avx2", "amx_bf16"});
  cpu::CpuFeatures more = f;
  more.avx512f = more.amx_tile = true;
  CHECK(cpu::missing_features(more, f) == "avx512f, amx_tile");
  CHECK(cpu::missing_features(f, more).empty());
  CHECK_FALSE(cpu::cpu_model().empty());
  CHECK(cpu::available_cpus() >= 1);
  CHECK_FALSE(cpu::flushes_denormals());
  std::atomic<bool> flushed = false;
  cpu::parallel_shares(2, 16, [&](Index) { flushed = flushed || cpu::flushes_denormals(); });
  CHECK_FALSE(flushed);
}

TEST_CASE("the thread count is checked and set", "[cpu_features]") {
  const int before = cpu::threads();
  cpu::set_threads(1);
  CHECK(cpu::threads() == 1);
  CHECK_THROWS_AS(cpu::set_threads(0), UserError);
  CHECK_THROWS_WITH(cpu::set_threads(-3), Catch::Contains("got -3"));
  CHECK(cpu::threads() == 1);
  cpu::set_threads(before);
}

TEST_CASE("a team can be bounded by the CPUs the process may use", "[cpu_features]") {
  const int before = cpu::threads(), usable = cpu::usable_cpus();
  CHECK(usable >= 1);
  CHECK(usable <= cpu::available_cpus());
  omp_set_num_threads(100000);
  CHECK(cpu::bound_threads());
  CHECK(cpu::threads() == usable);
  CHECK_FALSE(cpu::bound_threads());
  omp_set_num_threads(before);
}
