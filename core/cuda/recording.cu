// Recordings: what the stream is asked for, captured as a CUDA graph.
#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/memory.h"
#include "core/error.h"

namespace tandem::cuda {

namespace {

class Graph final : public Recording {
 public:
  Graph(cudaGraphExec_t graph, cudaStream_t stream, std::shared_ptr<CachingAllocator> memory)
      : graph_(graph), stream_(stream), memory_(std::move(memory)) {}
  ~Graph() override {
    cudaStreamSynchronize(stream_);  // its memory may go with it
    cudaGraphExecDestroy(graph_);
  }
  void replay() override { check(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t graph_;
  cudaStream_t stream_;
  std::shared_ptr<CachingAllocator> memory_;
};

}  // namespace

std::unique_ptr<Recording> CudaBackend::record(const std::function<void()>& work) {
  ensure(recording_allocator_ == nullptr, "cuda", "a recording is under way already");
  synchronize();
  // What the work needs is allocated once more, for it alone: give back what is cached.
  drop_unused_recording_memory();
  allocator_->trim();
  auto memory = std::make_shared<CachingAllocator>(device_memory(index_), /*keeps_segments=*/true);
  recording_allocators_.push_back(memory);
  recording_allocator_ = memory.get();
  cudaGraphExec_t graph = nullptr;
  try {
    graph = capture(work);
  } catch (...) {
    recording_allocator_ = nullptr;
    throw;
  }
  recording_allocator_ = nullptr;
  return std::make_unique<Graph>(graph, stream_, std::move(memory));
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

// Memory that no recording and no tensor uses any more.
void CudaBackend::drop_unused_recording_memory() {
  std::erase_if(recording_allocators_, [](const std::shared_ptr<CachingAllocator>& memory) {
    return memory.use_count() == 1 && memory->figures().live == 0;
  });
}

MemoryFigures CudaBackend::memory() {
  drop_unused_recording_memory();
  MemoryFigures sum = allocator_->figures();
  for (const auto& memory : recording_allocators_) {
    const MemoryFigures own = memory->figures();
    sum.live += own.live;
    sum.peak += own.peak;
    sum.reserved += own.reserved;
    sum.peak_reserved += own.peak_reserved;
    sum.system_requests += own.system_requests;
    for (std::size_t kind = 0; kind < sum.live_by_kind.size(); ++kind) {
      sum.live_by_kind[kind] += own.live_by_kind[kind];
      sum.peak_by_kind[kind] += own.peak_by_kind[kind];
    }
  }
  return sum;
}

void CudaBackend::reset_peak_memory() {
  allocator_->reset_peak();
  for (const auto& memory : recording_allocators_) memory->reset_peak();
}

}  // namespace tandem::cuda
