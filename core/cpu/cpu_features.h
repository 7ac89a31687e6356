// Features of the host's CPU, found by feature bits (cpuid and xgetbv), and the process-wide settings that
// follow.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::cpu {

// A feature counts only where the operating system saves its registers as well.
struct CpuFeatures {
  bool ssse3 = false, sse4_1 = false, sse4_2 = false, popcnt = false;
  bool avx = false, avx2 = false, fma = false, f16c = false, movbe = false, bmi1 = false, bmi2 = false,
       lzcnt = false;
  bool avx512f = false, avx512bw = false, avx512cd = false, avx512dq = false, avx512vl = false;
  bool avx512_vnni = false, avx512_bf16 = false, avx512_fp16 = false;
  bool amx_tile = false, amx_bf16 = false, amx_int8 = false;
};

// Detected once.
const CpuFeatures& cpu_features();

// Names of the features present, in the order above: "ssse3", …, "avx2", …
std::vector<std::string_view> names_of(const CpuFeatures& features);

// The names of those of `needed` that `present` lacks, joined by ", "; empty where there is none.
std::string missing_features(const CpuFeatures& needed, const CpuFeatures& present);

enum class AmxPermission { unsupported, granted, refused };

// "unsupported", "granted", "refused"
std::string_view name_of(AmxPermission permission);

// Asks the kernel for the AMX tile registers of the whole process; threads and children inherit the answer,
// and only the first call asks. It runs when the library is loaded: a signal stack that is set up earlier and
// is too small for the tile state makes the kernel refuse, and then BF16 is slow.
AmxPermission request_amx();

// "AMD EPYC 9B45", as the CPU names itself.
const std::string& cpu_model();
// Logical CPUs this process may run on: its affinity mask's, or those of OpenMP's places (OMP_PLACES).
int available_cpus();

// Those it may keep busy: available_cpus(), or the CPU time its container grants, rounded up. `root` is where
// /proc and /sys are.
int usable_cpus(const std::string& root = "/");

// Threads of the one OpenMP team, which is formed at the first call (core/cpu/team.h): as many as a parallel
// region of the caller has. Within one it is 1. `set_threads` throws UserError unless 1 <= count <= 1024, and
// takes no more than OMP_THREAD_LIMIT.
int threads();
void set_threads(int count);
// Lowers the team to usable_cpus(): more threads than that wait for each other, and very many end the
// process. Returns whether there were more.
bool bound_threads();

// Whether the calling thread treats subnormal numbers as zero. Tandem leaves this off: FP16 and FP32
// subnormals count.
bool flushes_denormals();

}  // namespace tandem::cpu
