// The backend of one NVIDIA GPU: cuBLASLt for products, cuDNN for convolutions, own kernels for everything
// else.
//
// Kernels are put on one stream and return at once; memory comes from a caching allocator whose blocks are
// used in the order of that stream, so a block that is given back may be handed out while kernels before
// still use it. Uploads have a stream of their own. A recording is a CUDA graph; recordings share an
// allocator of their own, whose memory nothing else is given while one of them lives. The files of core/cuda
// hold the bodies family by family.
//
// A backend owns its handles of cuBLASLt and cuDNN, and must be destroyed before the CUDA runtime is, or not
// at all.
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
  // That of recordings, while there is one under way.
  CachingAllocator& allocator() override { return recording_ ? *recording_memory_ : *allocator_; }
  MemoryFigures memory() override;
  void reset_peak_memory() override;
  void set_rules(const ComputeRules& rules) override;
  // A table (core/algorithms.h), also before it has lines.
  std::string tuning_cache() const override { return to_text(algorithms_); }
  bool adopt_tuning_cache(const std::string& text) override;
  // Also throws UserError when a kernel found a bad index since the last time.
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
  // Gives the memory of recordings back to the device when none of them lives, nor a tensor in it.
  void drop_unused_recording_memory();

  // ---- kernels: the sources of a family define them
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

  // A change applies from the next call on.
  Rules& rules() { return rules_; }
  const Rules& rules() const { return rules_; }
  // What cuDNN's plans and cuBLASLt's algorithms are looked up in, and noted.
  AlgorithmTable& algorithm_table() { return algorithms_; }
  // Made when they are first asked for.
  Blas& blas();
  dnn::Library& dnn();

  cudaStream_t stream() const { return stream_; }
  // See DeviceLink::watch.
  void watch(std::function<void(double)> look) { look_ = std::move(look); }
  // Where kernels report a bad index; device and host see the same memory.
  Fault* fault() const { return fault_; }
  // What the kernels of an update hand to one another, `bytes` of at most kUpdateRoom: it is there before the
  // first of them, for a step whose memory is refused in the middle would be half done.
  static constexpr std::size_t kUpdateRoom = 2u << 20u;
  void* update_room(std::size_t bytes) const;
  // Uninitialised memory for the life of a call.
  Tensor workspace(const Shape& shape, DType dtype) const {
    return Tensor::empty(shape, {dtype, device(), MemoryKind::workspace});
  }

 private:
  void check_fault();
  void wait_for(cudaEvent_t event);
  // Until all is done that the stream was asked for.
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
  // Shared with the recordings that live. Their replays follow one another on one stream, so what one of them
  // gives back while it is made serves the next. Absent when there is none.
  std::shared_ptr<CachingAllocator> recording_memory_;
  bool recording_ = false;  // one is being made
  cudaStream_t stream_ = nullptr, upload_stream_ = nullptr;
  cudaEvent_t uploaded_ = nullptr;  // the last upload
  cudaEvent_t awaited_ = nullptr;   // the end of the stream, while somebody looks on
  std::function<void(double)> look_;
  Fault* fault_ = nullptr;
  void* update_room_ = nullptr;
  Rules rules_;
  AlgorithmTable algorithms_;
  std::unique_ptr<Blas> blas_;
  std::unique_ptr<dnn::Library> dnn_;
  // A ring: event e lies in slot e % kEvents.
  static constexpr std::size_t kEvents = 8;
  std::array<cudaEvent_t, kEvents> events_{};
  std::uint64_t last_event_ = 0, last_done_ = 0;
  // A timestamp is the position of its event; events are kept when timestamps are cleared.
  std::vector<cudaEvent_t> timing_events_;
  std::size_t timestamps_ = 0;
  // Shared pointers, since the families are incomplete types here.
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
