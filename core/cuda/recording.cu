// Recordings: the stream's work, captured as a CUDA graph.
#include <cuda_runtime.h>

#include <utility>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/memory.h"
#include "core/error.h"

namespace tandem::cuda {

namespace {

class Graph final : public Recording {
 public:
  Graph(cudaGraphExec_t graph, CudaBackend& backend, std::shared_ptr<CachingAllocator> memory)
      : graph_(graph), backend_(backend), memory_(std::move(memory)) {}
  ~Graph() override {
    cudaStreamSynchronize(backend_.stream());  // its memory may be freed with it
    cudaGraphExecDestroy(graph_);
    memory_.reset();
    backend_.drop_unused_recording_memory();
  }
  void replay() override { check(cudaGraphLaunch(graph_, backend_.stream()), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t graph_;
  CudaBackend& backend_;
  std::shared_ptr<CachingAllocator> memory_;
};

}  // namespace

std::unique_ptr<Recording> CudaBackend::record(const std::function<void()>& work) {
  ensure(!recording_, "cuda", "a recording is already in progress");
  synchronize();
  // The recorded work allocates from its own allocator, so cached memory is released first.
  allocator_->trim();
  if (!recording_memory_)
    recording_memory_ = std::make_shared<CachingAllocator>(device_memory(index_), /*keeps_segments=*/true);
  recording_ = true;
  cudaGraphExec_t graph = nullptr;
  try {
    graph = capture(work);
  } catch (...) {
    recording_ = false;
    drop_unused_recording_memory();
    throw;
  }
  recording_ = false;
  return std::make_unique<Graph>(graph, *this, recording_memory_);
}

cudaGraphExec_t CudaBackend::capture(const std::function<void()>& work) {
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
  return executable;
}

void CudaBackend::drop_unused_recording_memory() {
  if (!recording_ && recording_memory_.use_count() == 1 && recording_memory_->figures().live == 0)
    recording_memory_.reset();
}

MemoryFigures CudaBackend::memory() {
  drop_unused_recording_memory();
  MemoryFigures sum = allocator_->figures();
  if (!recording_memory_) return sum;
  const MemoryFigures own = recording_memory_->figures();
  sum.live += own.live;
  sum.peak += own.peak;
  sum.reserved += own.reserved;
  sum.peak_reserved += own.peak_reserved;
  sum.system_requests += own.system_requests;
  for (std::size_t kind = 0; kind < sum.live_by_kind.size(); ++kind) {
    sum.live_by_kind[kind] += own.live_by_kind[kind];
    sum.peak_by_kind[kind] += own.peak_by_kind[kind];
  }
  return sum;
}

void CudaBackend::reset_peak_memory() {
  allocator_->reset_peak();
  if (recording_memory_) recording_memory_->reset_peak();
}

}  // namespace tandem::cuda
