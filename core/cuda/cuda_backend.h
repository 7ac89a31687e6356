// Backend of one NVIDIA GPU: cuBLASLt for matrix products, cuDNN for convolutions, own kernels for the rest.
//
// Kernels are launched on one stream and return at once. The caching allocator reuses memory in the order of
// that stream, so a freed block may be handed out while earlier kernels still use it. Uploads have a second
// stream. A recording is a CUDA graph; all recordings share one allocator, whose memory serves nothing else
// while a recording exists. The sources of a family define its kernels.
//
// A backend owns handles of cuBLASLt and cuDNN: destroy it before the CUDA runtime, or never.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/algorithms.h"
#include "core/backend.h"
#include "core/cuda/fault.h"
#include "core/cuda/rules.h"

namespace tandem::cuda {

class Blas;
namespace dnn {
class Library;
}

class CudaBackend final : public Backend {
 public:
  // Throws VendorError when the device cannot be used.
  explicit CudaBackend(int index);
  ~CudaBackend() override;

  Device device() const override { return {DeviceType::cuda, static_cast<std::int8_t>(index_)}; }
  // The allocator of recordings while one is made.
  CachingAllocator& allocator() override { return recording_ ? *recording_memory_ : *allocator_; }
  MemoryFigures memory() override;
  void reset_peak_memory() override;
  void set_rules(const ComputeRules& rules) override;
  // As a table (core/algorithms.h).
  std::string tuning_cache() const override { return to_text(algorithms_); }
  bool adopt_tuning_cache(const std::string& text) override;
  // Also throws UserError if a kernel has found a bad index since the last call.
  void synchronize() override;
  std::uint64_t record_event() override;
  bool event_done(std::uint64_t event) override;
  void wait_event(std::uint64_t event) override;

  // ---- measurement
  std::uint64_t timestamp() override;
  double seconds_between(std::uint64_t first, std::uint64_t last) override;
  void clear_timestamps() override { timestamps_ = 0; }
  void begin_range(const char* name) override;
  void end_range() override;
  // ---- copies
  void fill(const Tensor& y, double value) override;
  void copy_bytes(const Tensor& x, const Tensor& y) override;
  void cast(const Tensor& x, const Tensor& y, bool accumulate) override;
  CachingAllocator& transfer_allocator() override { return *transfer_allocator_; }
  void upload(const Tensor& x, const Tensor& y, std::uint64_t after) override;
  // ---- recording
  bool records() const override { return true; }
  std::unique_ptr<Recording> record(const std::function<void()>& work) override;
  // Returns the memory of recordings to the device if neither a recording nor a tensor in it exists.
  void drop_unused_recording_memory();

  // ---- kernels
  AttentionKernels& attention() override;
  BoxKernels& boxes() override;
  ConvKernels& conv() override;
  ElementwiseKernels& elementwise() override;
  ImageKernels& image() override;
  IndexKernels& index() override;
  MatmulKernels& matmul() override;
  NormKernels& norm() override;
  PoolKernels& pool() override;
  RandomKernels& random() override;
  ReduceKernels& reduce() override;
  RnnKernels& rnn() override;
  ShapeKernels& shape() override;
  SoftmaxKernels& softmax() override;
  UpdateKernels& update() override;

  // Changes apply from the next call.
  Rules& rules() { return rules_; }
  const Rules& rules() const { return rules_; }
  // The chosen plans of cuDNN and algorithms of cuBLASLt.
  AlgorithmTable& algorithm_table() { return algorithms_; }
  // Created at first use.
  Blas& blas();
  dnn::Library& dnn();

  cudaStream_t stream() const { return stream_; }
  // See DeviceLink::watch.
  void watch(std::function<void(double)> look) { look_ = std::move(look); }
  // Memory shared by device and host, in which kernels report a bad index.
  Fault* fault() const { return fault_; }
  // Scratch memory of an update, at most kUpdateRoom bytes. It is allocated in advance, because running out
  // of memory within an update would leave it half applied.
  static constexpr std::size_t kUpdateRoom = 2u << 20u;
  void* update_room(std::size_t bytes) const;
  // Uninitialised memory for the duration of a call.
  Tensor workspace(const Shape& shape, DType dtype) const {
    return Tensor::empty(shape, {dtype, device(), MemoryKind::workspace});
  }

 private:
  void check_fault();
  void wait_for(cudaEvent_t event);
  // Waits for all work of the stream.
  void wait_for_stream();
  [[noreturn]] void throw_fault();
  cudaGraphExec_t capture(const std::function<void()>& work);
  // The kernels of a family, created at the first call.
  template <class Kernels, class Family>
  Family& own(std::shared_ptr<Family>& family) {
    if (!family) family = std::make_shared<Kernels>(*this);
    return *family;
  }

  int index_;
  std::unique_ptr<CachingAllocator> allocator_, transfer_allocator_;
  // Shared by all recordings. Replays run one after the other, so memory that is freed while a recording is
  // made serves the next one. Absent without recordings.
  std::shared_ptr<CachingAllocator> recording_memory_;
  bool recording_ = false;  // whether one is being made
  cudaStream_t stream_ = nullptr, upload_stream_ = nullptr;
  cudaEvent_t uploaded_ = nullptr;  // end of the last upload
  cudaEvent_t awaited_ = nullptr;   // end of the work that a polling host awaits
  std::function<void(double)> look_;
  Fault* fault_ = nullptr;
  void* update_room_ = nullptr;
  Rules rules_;
  AlgorithmTable algorithms_;
  std::unique_ptr<Blas> blas_;
  std::unique_ptr<dnn::Library> dnn_;
  // Ring buffer: event e is in slot e % kEvents.
  static constexpr std::size_t kEvents = 8;
  std::array<cudaEvent_t, kEvents> events_{};
  std::uint64_t last_event_ = 0, last_done_ = 0;
  // A timestamp is the position of its event; clear_timestamps() keeps the events.
  std::vector<cudaEvent_t> timing_events_;
  std::size_t timestamps_ = 0;
  // Shared pointers, because the families are incomplete types here.
  struct {
    std::shared_ptr<AttentionKernels> attention;
    std::shared_ptr<BoxKernels> boxes;
    std::shared_ptr<ConvKernels> conv;
    std::shared_ptr<ElementwiseKernels> elementwise;
    std::shared_ptr<ImageKernels> image;
    std::shared_ptr<IndexKernels> index;
    std::shared_ptr<MatmulKernels> matmul;
    std::shared_ptr<NormKernels> norm;
    std::shared_ptr<PoolKernels> pool;
    std::shared_ptr<RandomKernels> random;
    std::shared_ptr<ReduceKernels> reduce;
    std::shared_ptr<RnnKernels> rnn;
    std::shared_ptr<ShapeKernels> shape;
    std::shared_ptr<SoftmaxKernels> softmax;
    std::shared_ptr<UpdateKernels> update;
  } kernels_;
};

// Base of the kernels of a family on one GPU.
template <class Family>
struct GpuKernels : Family {
  explicit GpuKernels(CudaBackend& of) : backend(of) {}
  CudaBackend& backend;
};

}  // namespace tandem::cuda
