// CPU features of the host (from cpuid and xgetbv) and the process-wide settings that depend on them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::cpu {

// A feature counts only if the operating system saves its registers.
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

// Names of features in `needed` that `present` lacks, joined by ", "; empty if none.
std::string missing_features(const CpuFeatures& needed, const CpuFeatures& present);

enum class AmxPermission { unsupported, granted, refused };

// "unsupported", "granted", "refused"
std::string_view name_of(AmxPermission permission);

// Requests the AMX tile registers from the kernel, once for the whole process; threads and children inherit
// the answer. Runs when the library is loaded, because the kernel refuses if an existing signal stack is too
// small for the tile state; BF16 is then slow.
AmxPermission request_amx();

// The CPU's own model name, e.g. "AMD EPYC 9B45".
const std::string& cpu_model();
// Logical CPUs in the affinity mask, or in OpenMP's places (OMP_PLACES).
int available_cpus();

// Usable CPUs: available_cpus(), or the container's CPU quota, rounded up. `root` contains /proc and /sys.
int usable_cpus(const std::string& root = "/");

// Number of threads of a parallel loop (core/cpu/parallel.h): OpenMP's number for the calling thread; 1
// within a loop, or a parallel region of OpenMP. `set_threads` throws UserError unless 1 <= count <= 1024,
// and is limited by OMP_THREAD_LIMIT.
int threads();
void set_threads(int count);
// Limits the team to usable_cpus(), since more threads wait for each other and very many abort the process.
// Returns whether the team was larger.
bool bound_threads();

// Whether the calling thread flushes subnormal numbers to zero. Tandem leaves this off, because FP16 and FP32
// subnormals matter.
bool flushes_denormals();

}  // namespace tandem::cpu
