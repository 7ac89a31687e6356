#include <cuda_runtime.h>
#include <fmt/core.h>

#include <string>

#include "core/cuda/capture.h"
#include "core/cuda/memory.h"

namespace tandem::cuda {

namespace {

class DeviceMemory final : public MemorySource {
 public:
  explicit DeviceMemory(int index) : name_(fmt::format("cuda:{}", index)) {}

  void* acquire(std::size_t bytes) override {
    const RelaxedCapture relaxed;
    void* memory = nullptr;
    if (cudaMalloc(&memory, bytes) == cudaSuccess) return memory;
    cudaGetLastError();
    return nullptr;
  }
  // Must not run during capture. cudaFree synchronises, so no work uses the segment any more.
  void release(void* segment, std::size_t) override { cudaFree(segment); }
  std::string_view name() const override { return name_; }

  std::optional<FreeMemory> free_memory() const override {
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess) return FreeMemory{free, total};
    cudaGetLastError();
    return {};
  }

 private:
  std::string name_;
};

class PageLockedMemory final : public MemorySource {
 public:
  void* acquire(std::size_t bytes) override {
    const RelaxedCapture relaxed;
    void* memory = nullptr;
    if (cudaHostAlloc(&memory, bytes, cudaHostAllocPortable) == cudaSuccess) return memory;
    cudaGetLastError();
    return nullptr;
  }
  void release(void* segment, std::size_t) override { cudaFreeHost(segment); }
  std::string_view name() const override { return "page-locked host memory"; }
};

}  // namespace

std::unique_ptr<MemorySource> device_memory(int index) { return std::make_unique<DeviceMemory>(index); }
std::unique_ptr<MemorySource> page_locked_memory() { return std::make_unique<PageLockedMemory>(); }

}  // namespace tandem::cuda
