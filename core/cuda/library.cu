// Exports of the CUDA device library: see core/device_library.h.
#include <cuda_runtime.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/cuda/blas.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/dnn.h"
#include "core/cuda/launch.h"
#include "core/cuda/link.h"
#include "core/device_library.h"
#include "core/error.h"

namespace tandem::cuda {

namespace {

// Minimum compute capability of the compiled kernels (cmake/TandemCuda.cmake).
constexpr int kLeastMajor = 8;

cudaDeviceProp properties_of(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return properties;
}

int count(std::string& why_none) {
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess) {
    cudaGetLastError();
    why_none = fmt::format("{}: {}", cudaGetErrorName(status), cudaGetErrorString(status));
    return 0;
  }
  if (devices == 0) why_none = "CUDA sees no GPU";
  // Devices keep their numbers, so only those before the first unsupported one are usable.
  for (int i = 0; i < devices; ++i) {
    const cudaDeviceProp properties = properties_of(i);
    if (properties.major >= kLeastMajor) continue;
    why_none = fmt::format("{} has compute capability {}.{}, Tandem needs {}.0 (Ampere) or later",
                           properties.name, properties.major, properties.minor, kLeastMajor);
    return i;
  }
  return devices;
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string describe(int index) {
  const cudaDeviceProp properties = properties_of(index);
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return fmt::format(
      "{}, {:.1f} GiB, compute capability {}.{}, {} multiprocessors; CUDA {} (driver {}), {}, {}",
      properties.name, static_cast<double>(properties.totalGlobalMem) / (1 << 30), properties.major,
      properties.minor, properties.multiProcessorCount, version_text(runtime), version_text(driver),
      blas_version(), dnn::version());
}

CudaBackend& backend_of(int index) {
  // Never destroyed, because the driver may shut down before static objects are destroyed.
  static auto& backends = *new std::vector<std::unique_ptr<CudaBackend>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto slot = static_cast<std::size_t>(index);
  if (backends.size() <= slot) backends.resize(slot + 1);
  if (!backends[slot]) backends[slot] = std::make_unique<CudaBackend>(index);
  return *backends[slot];
}

Backend& backend(int index) { return backend_of(index); }

DeviceLink& link(int index) {
  static auto& links = *new std::map<int, std::unique_ptr<CudaLink>>;  // never destroyed, like backends
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::unique_ptr<CudaLink>& found = links[index];
  if (!found) found = std::make_unique<CudaLink>(index, backend_of(index));
  return *found;
}

}  // namespace

}  // namespace tandem::cuda

const tandem::DeviceLibrary* tandem_device_library() {
  static constexpr tandem::DeviceLibrary library{tandem::kDeviceLibraryVersion, tandem::cuda::count,
                                                 tandem::cuda::describe, tandem::cuda::backend,
                                                 tandem::cuda::link};
  return &library;
}
