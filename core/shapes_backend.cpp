#include "core/shapes_backend.h"

#include <memory>

#include "core/kernels/attention.h"
#include "core/kernels/boxes.h"
#include "core/kernels/conv.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/image.h"
#include "core/kernels/index.h"
#include "core/kernels/matmul.h"
#include "core/kernels/norm.h"
#include "core/kernels/pool.h"
#include "core/kernels/random.h"
#include "core/kernels/reduce.h"
#include "core/kernels/rnn.h"
#include "core/kernels/shape.h"
#include "core/kernels/softmax.h"
#include "core/kernels/update.h"

namespace tandem {

namespace {

// Addresses that no processor maps, each given out once.
class Addresses final : public MemorySource {
 public:
  void* acquire(std::size_t bytes) override {
    const std::uintptr_t address = next_;
    next_ += bytes;
    return reinterpret_cast<void*>(address);
  }
  void release(void*, std::size_t) override {}
  std::string_view name() const override { return "shapes"; }

 private:
  std::uintptr_t next_ = std::uintptr_t{1} << 62;  // the allocator's lock guards it
};

class ShapesBackend final : public Backend,
                            AttentionKernels,
                            BoxKernels,
                            ConvKernels,
                            ElementwiseKernels,
                            ImageKernels,
                            IndexKernels,
                            MatmulKernels,
                            NormKernels,
                            PoolKernels,
                            RandomKernels,
                            ReduceKernels,
                            RnnKernels,
                            ShapeKernels,
                            SoftmaxKernels,
                            UpdateKernels {
 public:
  Device device() const override { return kShapes; }
  CachingAllocator& allocator() override {
    // Never destroyed, as the host's.
    static auto* allocator = new CachingAllocator(std::make_unique<Addresses>());
    return *allocator;
  }
  void synchronize() override {}
  std::uint64_t record_event() override { return 0; }
  bool event_done(std::uint64_t) override { return true; }
  void wait_event(std::uint64_t) override {}
  std::uint64_t timestamp() override { return 0; }
  double seconds_between(std::uint64_t, std::uint64_t) override { return 0.0; }
  CachingAllocator& transfer_allocator() override { return host_allocator(); }
  void upload(const Tensor&, const Tensor&, std::uint64_t) override {}

  AttentionKernels& attention() override { return *this; }
  BoxKernels& boxes() override { return *this; }
  ConvKernels& conv() override { return *this; }
  ElementwiseKernels& elementwise() override { return *this; }
  ImageKernels& image() override { return *this; }
  IndexKernels& index() override { return *this; }
  MatmulKernels& matmul() override { return *this; }
  NormKernels& norm() override { return *this; }
  PoolKernels& pool() override { return *this; }
  RandomKernels& random() override { return *this; }
  ReduceKernels& reduce() override { return *this; }
  RnnKernels& rnn() override { return *this; }
  ShapeKernels& shape() override { return *this; }
  SoftmaxKernels& softmax() override { return *this; }
  UpdateKernels& update() override { return *this; }

  // ---- copies
  void fill(const Tensor&, double) override {}
  void copy_bytes(const Tensor&, const Tensor&) override {}
  void cast(const Tensor&, const Tensor&, bool) override {}
  // ---- elementwise
  void pointwise(FormulaId, const Scalars&, std::span<const Tensor>, const Tensor&, bool) override {}
  void rotate(const Tensor&, const Rotation&, const Tensor&) override {}
  void swiglu(const Tensor&, const Tensor&) override {}
  void swiglu_backward(const Tensor&, const Tensor&, const Tensor&) override {}
  // ---- shape
  void strided_copy(const Tensor&, const StridedView&, const Tensor&, const StridedView&, const Shape&,
                    bool) override {}
  void resize2d(const Tensor&, const Tensor&, const ResizeOptions&) override {}
  void resize2d_backward(const Tensor&, const Tensor&, const ResizeOptions&) override {}
  // ---- image
  void render_images(const Tensor&, const Tensor&, const ImageAffine&, const Tensor&) override {}
  // ---- reduce
  void reduce(Reduction, const Tensor&, std::uint32_t, const Tensor&, bool) override {}
  void cumsum(const Tensor&, int, bool, const Tensor&) override {}
  // ---- matmul
  void matmul(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const MatmulOptions&) override {}
  // ---- conv
  void conv2d(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Conv2dOptions&) override {}
  Tensor conv2d_with_sums(const Tensor&, const Tensor&, const Tensor&, const Conv2dOptions&) override {
    return {};
  }
  void conv2d_input_gradient(const Tensor&, const Tensor&, const Tensor&, const Conv2dOptions&,
                             bool) override {}
  void conv2d_filter_gradient(const Tensor&, const Tensor&, const Tensor&, const Conv2dOptions&,
                              bool) override {}
  // ---- pool
  void max_pool2d(const Tensor&, const Tensor&, const Tensor&, const Pool2dOptions&) override {}
  void max_pool2d_backward(const Tensor&, const Tensor&, const Tensor&, const Pool2dOptions&) override {}
  void max_pool2d_select(const Tensor&, const Tensor&, const Tensor&, const Pool2dOptions&) override {}
  void avg_pool2d(const Tensor&, const Tensor&, const Pool2dOptions&) override {}
  void avg_pool2d_backward(const Tensor&, const Tensor&, const Pool2dOptions&) override {}
  void adaptive_avg_pool2d(const Tensor&, const Tensor&) override {}
  void adaptive_avg_pool2d_backward(const Tensor&, const Tensor&) override {}
  // ---- norm
  void batch_norm_train(const BatchNormForward&) override {}
  void batch_norm_infer(const BatchNormForward&) override {}
  void batch_norm_backward(const BatchNormBackward&) override {}
  void layer_norm(const RowNormForward&) override {}
  void layer_norm_backward(const RowNormBackward&) override {}
  void residual_norm(const ResidualNormForward&) override {}
  void residual_norm_backward(const ResidualNormBackward&) override {}
  void group_norm(const RowNormForward&) override {}
  void group_norm_backward(const RowNormBackward&) override {}
  // ---- softmax
  void softmax(const Tensor&, int, bool, const Tensor&) override {}
  void softmax_backward(const Tensor&, const Tensor&, int, bool, const Tensor&) override {}
  void cross_entropy(const Tensor&, const Tensor&, const Tensor&, const CrossEntropyOptions&, const Tensor&,
                     const Tensor&, const Tensor&) override {}
  void cross_entropy_backward(const Tensor&, const Tensor&, const Tensor&, const CrossEntropyOptions&,
                              const Tensor&, const Tensor&, const Tensor&) override {}
  void match_boxes(const BoxMatch&) override {}
  void mine_negatives(const NegativeMining&) override {}
  void dice_sums(const Tensor&, const Tensor&, const DiceOptions&, const Tensor&) override {}
  void dice_backward(const Tensor&, const Tensor&, const DiceOptions&, const Tensor&,
                     const Tensor&) override {}
  // ---- rnn
  RnnReserve rnn(const RnnForward& args) override { return host_reserve(args); }
  void rnn_backward(const RnnBackward&) override {}
  // ---- attention
  void attention(const AttentionForward&) override {}
  void attention_backward(const AttentionBackward&) override {}
  void masked_softmax(const Tensor&, const AttentionMask&, const Tensor&) override {}
  void masked_softmax_backward(const Tensor&, const Tensor&, const AttentionMask&, const Tensor&) override {}
  void additive_attention(const AdditiveForward&) override {}
  void additive_attention_backward(const AdditiveBackward&) override {}
  // ---- index
  void gather(const Tensor&, const Tensor&, int, const Tensor&) override {}
  void scatter_add(const Tensor&, const Tensor&, int, const Tensor&) override {}
  void index_select(const Tensor&, const Tensor&, int, const Tensor&, const char*) override {}
  void index_add(const Tensor&, const Tensor&, int, const Tensor&, std::optional<Index>) override {}
  void mark_rows(const Tensor&, const Tensor&, std::optional<Index>) override {}
  void clear_rows(const Tensor&, const Tensor&) override {}
  void one_hot(const Tensor&, const Tensor&) override {}
  void topk(const Tensor&, Index, int, bool, const Tensor&, const Tensor&) override {}
  // ---- random
  void random_uniform(const RandomKey&, const Tensor&, double, double) override {}
  void random_normal(const RandomKey&, const Tensor&, double, double) override {}
  void dropout(const Tensor&, const RandomKey&, double, const Tensor&) override {}
  // ---- update
  void accumulate_loss(const Tensor&, double, const Tensor&, const Tensor&) override {}
  void check_gradients(const Tensor&, std::span<const UpdateRange>, const GradientCheck&, const Tensor&,
                       const Tensor&) override {}
  void unscale(const Tensor&, std::span<const UpdateRange>, const UnscaleOptions&, const Tensor&,
               const Tensor&, const Tensor&) override {}
  void sanitize(const Tensor&, std::span<const UpdateRange>, float, const Tensor&) override {}
  void decide_step(const StepRules&, const Tensor&, const Tensor&, const Tensor&) override {}
  void update_scale(const ScaleRules&, const Tensor&) override {}
  void update(const UpdateRule&, std::span<const UpdateRange>, const UpdateBuffers&, const Tensor&) override {
  }
  void commit_or_restore(const Tensor&, const Tensor&, const Tensor&) override {}
  void update_average(const Tensor&, const Tensor&, const AverageRule&, const Tensor&) override {}
  void round_to(const Tensor&, DType) override {}
  void scale_and_limit(const Tensor&, double, double) override {}
};

}  // namespace

Backend& shapes_backend() {
  static ShapesBackend backend;
  return backend;
}

}  // namespace tandem
