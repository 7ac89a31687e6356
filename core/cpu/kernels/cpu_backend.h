// The backend of the host's CPU: oneDNN for convolution, matmul and pooling, Eigen for dense algebra and
// maths, own vectorised kernels for what is bound by memory. OpenMP is the one thread team.
//
// One file of core/cpu per family holds the bodies.
#pragma once

#include "core/backend.h"

namespace tandem::cpu::TANDEM_LEVEL {

class CpuBackend final : public Backend {
 public:
  Device device() const override { return {}; }
  CachingAllocator& allocator() override { return host_allocator(); }
  void synchronize() override {}
  // Everything is done when a call returns.
  std::uint64_t record_event() override { return 0; }
  bool event_done(std::uint64_t) override { return true; }
  void wait_event(std::uint64_t) override {}
  // Nanoseconds of the steady clock.
  std::uint64_t timestamp() override;
  double seconds_between(std::uint64_t first, std::uint64_t last) override;
  CachingAllocator& transfer_allocator() override { return host_allocator(); }
  void upload(const Tensor& x, const Tensor& y, std::uint64_t) override { copy_bytes(x, y); }

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
  // Every call returns when its work is done.
};

CpuBackend& backend();

}  // namespace tandem::cpu::TANDEM_LEVEL
