#include "core/cpu/cpu_features.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "core/cgroup.h"
#include "core/cpu/openmp.h"
#include "core/cpu/parallel.h"
#include "core/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xmmintrin.h>
#endif

namespace tandem::cpu {

namespace {

struct NamedFeature {
  const char* name;
  bool CpuFeatures::*member;
};

constexpr std::array kFeatures = {
    NamedFeature{"ssse3", &CpuFeatures::ssse3},
    NamedFeature{"sse4_1", &CpuFeatures::sse4_1},
    NamedFeature{"sse4_2", &CpuFeatures::sse4_2},
    NamedFeature{"popcnt", &CpuFeatures::popcnt},
    NamedFeature{"avx", &CpuFeatures::avx},
    NamedFeature{"avx2", &CpuFeatures::avx2},
    NamedFeature{"fma", &CpuFeatures::fma},
    NamedFeature{"f16c", &CpuFeatures::f16c},
    NamedFeature{"movbe", &CpuFeatures::movbe},
    NamedFeature{"bmi1", &CpuFeatures::bmi1},
    NamedFeature{"bmi2", &CpuFeatures::bmi2},
    NamedFeature{"lzcnt", &CpuFeatures::lzcnt},
    NamedFeature{"avx512f", &CpuFeatures::avx512f},
    NamedFeature{"avx512bw", &CpuFeatures::avx512bw},
    NamedFeature{"avx512cd", &CpuFeatures::avx512cd},
    NamedFeature{"avx512dq", &CpuFeatures::avx512dq},
    NamedFeature{"avx512vl", &CpuFeatures::avx512vl},
    NamedFeature{"avx512_vnni", &CpuFeatures::avx512_vnni},
    NamedFeature{"avx512_bf16", &CpuFeatures::avx512_bf16},
    NamedFeature{"avx512_fp16", &CpuFeatures::avx512_fp16},
    NamedFeature{"amx_tile", &CpuFeatures::amx_tile},
    NamedFeature{"amx_bf16", &CpuFeatures::amx_bf16},
    NamedFeature{"amx_int8", &CpuFeatures::amx_int8},
};

#if defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers query(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

bool bit(unsigned value, int index) { return (value >> index & 1u) != 0; }

// XCR0: register states saved by the operating system.
std::uint64_t saved_states() {
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<std::uint64_t>(high) << 32 | low;
}

CpuFeatures detect() {
  CpuFeatures f;
  const Registers basic = query(1);
  f.ssse3 = bit(basic.ecx, 9);
  f.sse4_1 = bit(basic.ecx, 19);
  f.sse4_2 = bit(basic.ecx, 20);
  f.popcnt = bit(basic.ecx, 23);
  if (!bit(basic.ecx, 27)) return f;  // no OSXSAVE: no vector state beyond SSE
  const std::uint64_t states = saved_states();
  const bool ymm = (states & 0x6) == 0x6;
  const bool zmm = ymm && (states & 0xe0) == 0xe0;
  const bool tiles = (states & 0x60000) == 0x60000;
  const Registers seven = query(7), seven_one = query(7, 1), extended = query(0x80000001u);
  f.avx = ymm && bit(basic.ecx, 28);
  f.fma = ymm && bit(basic.ecx, 12);
  f.f16c = ymm && bit(basic.ecx, 29);
  f.avx2 = ymm && bit(seven.ebx, 5);
  f.movbe = bit(basic.ecx, 22);
  f.bmi1 = bit(seven.ebx, 3);
  f.bmi2 = bit(seven.ebx, 8);
  f.lzcnt = bit(extended.ecx, 5);
  f.avx512f = zmm && bit(seven.ebx, 16);
  f.avx512dq = zmm && bit(seven.ebx, 17);
  f.avx512cd = zmm && bit(seven.ebx, 28);
  f.avx512bw = zmm && bit(seven.ebx, 30);
  f.avx512vl = zmm && bit(seven.ebx, 31);
  f.avx512_vnni = zmm && bit(seven.ecx, 11);
  f.avx512_fp16 = zmm && bit(seven.edx, 23);
  f.avx512_bf16 = zmm && bit(seven_one.eax, 5);
  f.amx_bf16 = tiles && bit(seven.edx, 22);
  f.amx_tile = tiles && bit(seven.edx, 24);
  f.amx_int8 = tiles && bit(seven.edx, 25);
  return f;
}

std::string detect_model() {
  std::array<char, 49> brand{};
  for (unsigned i = 0; i < 3; ++i) {
    const Registers r = query(0x80000002u + i);
    std::memcpy(brand.data() + 16 * i, &r, 16);
  }
  std::string name(brand.data());
  while (!name.empty() && name.back() == ' ') name.pop_back();
  name.erase(0, name.find_first_not_of(' ') == std::string::npos ? name.size() : name.find_first_not_of(' '));
  return name.empty() ? "unknown x86-64" : name;
}

AmxPermission ask_for_amx() {
  if (!cpu_features().amx_tile) return AmxPermission::unsupported;
  constexpr int kRequest = 0x1023, kGet = 0x1022, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, ARCH_GET_XCOMP_PERM
  syscall(SYS_arch_prctl, kRequest, kTileData);
  unsigned long granted = 0;
  if (syscall(SYS_arch_prctl, kGet, &granted) != 0) return AmxPermission::refused;
  return granted >> kTileData & 1ul ? AmxPermission::granted : AmxPermission::refused;
}

#else

CpuFeatures detect() { return {}; }
AmxPermission ask_for_amx() { return AmxPermission::unsupported; }

std::string detect_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name") || line.starts_with("Hardware")) {
      const auto colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "unknown";
}

#endif

[[maybe_unused]] const AmxPermission kAskedAtStart = request_amx();

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

std::vector<std::string_view> names_of(const CpuFeatures& features) {
  std::vector<std::string_view> names;
  for (const NamedFeature& feature : kFeatures) {
    if (features.*feature.member) names.emplace_back(feature.name);
  }
  return names;
}

std::string missing_features(const CpuFeatures& needed, const CpuFeatures& present) {
  std::string missing;
  for (const NamedFeature& feature : kFeatures) {
    if (!(needed.*feature.member) || present.*feature.member) continue;
    missing += missing.empty() ? "" : ", ";
    missing += feature.name;
  }
  return missing;
}

std::string_view name_of(AmxPermission permission) {
  constexpr std::string_view names[] = {"unsupported", "granted", "refused"};
  return names[static_cast<int>(permission)];
}

AmxPermission request_amx() {
  static const AmxPermission permission = ask_for_amx();
  return permission;
}

const std::string& cpu_model() {
  static const std::string model = detect_model();
  return model;
}

int available_cpus() {
  // The affinity mask, unless OpenMP's variables define places; OpenMP then binds this thread to one as well.
  const int places = omp_get_num_places();
  if (places == 0) return omp_get_num_procs();
  std::set<int> cpus;
  for (int place = 0; place < places; ++place) {
    std::vector<int> ids(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    cpus.insert(ids.begin(), ids.end());
  }
  return static_cast<int>(cpus.size());
}

int usable_cpus(const std::string& root) {
  const int available = available_cpus();
  const double granted = std::ceil(cgroup_limits(root).cpus.value_or(available));
  return std::max(1, granted < available ? static_cast<int>(granted) : available);
}

int threads() {
  if (is_in_loop() || omp_in_parallel()) return 1;
  return std::min(omp_get_max_threads(), thread_limit());
}

void set_threads(int count) {
  require(count >= 1 && count <= 1024, "threads", "the thread count must lie in [1, 1024], got {}", count);
  omp_set_num_threads(std::min(count, thread_limit()));
}

bool bound_threads() {
  const int usable = usable_cpus();
  if (omp_get_max_threads() <= usable) return false;
  omp_set_num_threads(usable);
  return true;
}

bool flushes_denormals() {
#if defined(__x86_64__)
  return (_mm_getcsr() & 0x8040u) != 0;  // flush to zero, denormals are zero
#else
  return false;
#endif
}

}  // namespace tandem::cpu
