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
  // ---- transfer
  CachingAllocator& transfer_allocator() override { return *transfer_allocator_; }
  void upload(const Tensor& x, const Tensor& y, std::uint64_t after) override;
  // ---- recording
  bool records() const override { return true; }
  std::unique_ptr<Recording> record(const std::function<void()>& work) override;
  // Gives the memory of recordings back to the device when none of them lives, nor a tensor in it.
  void drop_unused_recording_memory();

  // ---- elementwise
  void fill(const Tensor& y, double value) override;
  void copy_bytes(const Tensor& x, const Tensor& y) override;
  void cast(const Tensor& x, const Tensor& y, bool accumulate) override;
  void pointwise(FormulaId formula, const Scalars& scalars, std::span<const Tensor> inputs, const Tensor& y,
                 bool accumulate) override;
  // ---- shape
  void strided_copy(const Tensor& x, const StridedView& from, const Tensor& y, const StridedView& to,
                    const Shape& extents, bool accumulate) override;
  void resize2d(const Tensor& x, const Tensor& y, const ResizeOptions& options) override;
  void resize2d_backward(const Tensor& dy, const Tensor& dx, const ResizeOptions& options) override;
  // ---- image
  void render_images(const Tensor& records, const Tensor& windows, const ImageAffine& affine,
                     const Tensor& y) override;
  // ---- reduce
  void reduce(Reduction op, const Tensor& x, std::uint32_t axes, const Tensor& y, bool accumulate) override;
  void cumsum(const Tensor& x, int axis, bool reverse, const Tensor& y) override;
  // ---- matmul
  void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
              const MatmulOptions& options) override;
  // ---- conv
  void conv2d(const Tensor& x, const Tensor& filter, const Tensor& bias, const Tensor& y,
              const Conv2dOptions& options) override;
  Tensor conv2d_with_sums(const Tensor& x, const Tensor& filter, const Tensor& y,
                          const Conv2dOptions& options) override;
  void conv2d_input_gradient(const Tensor& dy, const Tensor& filter, const Tensor& dx,
                             const Conv2dOptions& options, bool accumulate) override;
  void conv2d_filter_gradient(const Tensor& x, const Tensor& dy, const Tensor& dfilter,
                              const Conv2dOptions& options, bool accumulate) override;
  // ---- pool
  void max_pool2d(const Tensor& x, const Tensor& y, const Tensor& where,
                  const Pool2dOptions& options) override;
  void max_pool2d_backward(const Tensor& dy, const Tensor& where, const Tensor& dx,
                           const Pool2dOptions& options) override;
  void max_pool2d_select(const Tensor& x, const Tensor& where, const Tensor& y,
                         const Pool2dOptions& options) override;
  void avg_pool2d(const Tensor& x, const Tensor& y, const Pool2dOptions& options) override;
  void avg_pool2d_backward(const Tensor& dy, const Tensor& dx, const Pool2dOptions& options) override;
  void adaptive_avg_pool2d(const Tensor& x, const Tensor& y) override;
  void adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) override;
  // ---- norm
  void batch_norm_train(const BatchNormForward& args) override;
  void batch_norm_infer(const BatchNormForward& args) override;
  void batch_norm_backward(const BatchNormBackward& args) override;
  void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                  const Tensor& mean, const Tensor& rstd) override;
  void layer_norm_backward(const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                           const Tensor& dy, const Tensor& dx, const Tensor& dgamma,
                           const Tensor& dbeta) override;
  void group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, Index groups, double eps,
                  const Tensor& y, const Tensor& mean, const Tensor& rstd) override;
  void group_norm_backward(const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                           Index groups, const Tensor& dy, const Tensor& dx, const Tensor& dgamma,
                           const Tensor& dbeta) override;
  // ---- softmax
  void softmax(const Tensor& x, int axis, bool log, const Tensor& y) override;
  void softmax_backward(const Tensor& y, const Tensor& dy, int axis, bool log, const Tensor& dx) override;
  void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& class_weights,
                     const CrossEntropyOptions& options, const Tensor& loss, const Tensor& row_weight,
                     const Tensor& lse) override;
  void cross_entropy_backward(const Tensor& logits, const Tensor& targets, const Tensor& class_weights,
                              const CrossEntropyOptions& options, const Tensor& lse, const Tensor& dloss,
                              const Tensor& dlogits) override;
  void dice_sums(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                 const Tensor& sums) override;
  void dice_backward(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                     const Tensor& slopes, const Tensor& dlogits) override;
  // ---- rnn
  RnnReserve rnn(const RnnForward& args) override;
  void rnn_backward(const RnnBackward& args) override;
  // ---- attention
  void masked_softmax(const Tensor& x, const AttentionMask& mask, const Tensor& y) override;
  void masked_softmax_backward(const Tensor& y, const Tensor& dy, const AttentionMask& mask,
                               const Tensor& dx) override;
  void additive_attention(const AdditiveForward& args) override;
  void additive_attention_backward(const AdditiveBackward& args) override;
  // ---- boxes
  void match_boxes(const BoxMatch& args) override;
  void mine_negatives(const NegativeMining& args) override;
  // ---- index
  void gather(const Tensor& x, const Tensor& index, int axis, const Tensor& y) override;
  void scatter_add(const Tensor& src, const Tensor& index, int axis, const Tensor& y) override;
  void index_select(const Tensor& x, const Tensor& index, int axis, const Tensor& y, const char* op) override;
  void index_add(const Tensor& src, const Tensor& index, int axis, const Tensor& y,
                 std::optional<Index> skip) override;
  void mark_rows(const Tensor& index, const Tensor& marks, std::optional<Index> skip) override;
  void clear_rows(const Tensor& x, const Tensor& marks) override;
  void one_hot(const Tensor& index, const Tensor& y) override;
  void topk(const Tensor& x, Index k, int axis, bool largest, const Tensor& values,
            const Tensor& indices) override;
  // ---- random
  void random_uniform(const RandomKey& key, const Tensor& y, double low, double high) override;
  void random_normal(const RandomKey& key, const Tensor& y, double mean, double stddev) override;
  void dropout(const Tensor& x, const RandomKey& key, double p, const Tensor& y) override;
  // ---- update
  void accumulate_loss(const Tensor& loss, double weight, const Tensor& state, const Tensor& scale) override;
  void check_gradients(const Tensor& gradient, std::span<const UpdateRange> ranges,
                       const GradientCheck& check, const Tensor& state, const Tensor& scale) override;
  void unscale(const Tensor& gradient, std::span<const UpdateRange> ranges, const UnscaleOptions& options,
               const Tensor& target, const Tensor& state, const Tensor& scale) override;
  void sanitize(const Tensor& gradient, std::span<const UpdateRange> ranges, float floor,
                const Tensor& scale) override;
  void decide_step(const StepRules& rules, const Tensor& lr_table, const Tensor& state,
                   const Tensor& scale) override;
  void update_scale(const ScaleRules& rules, const Tensor& scale) override;
  void update(const UpdateRule& rule, std::span<const UpdateRange> ranges, const UpdateBuffers& buffers,
              const Tensor& state) override;
  void commit_or_restore(const Tensor& source, const Tensor& target, const Tensor& state) override;
  void update_average(const Tensor& value, const Tensor& average, const AverageRule& rule,
                      const Tensor& state) override;
  void round_to(const Tensor& x, DType dtype) override;
  void scale_and_limit(const Tensor& x, double factor, double limit) override;

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
};

}  // namespace tandem::cuda
