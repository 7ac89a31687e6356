// Backend: what a device can compute. One implementation per device, its kernels grouped by family.
//
// Contract of every kernel
//  - Tensors are dense, on this backend's device, and allocated by the caller. Shapes and dtypes have been
//    checked by the op in autograd/ops.
//  - Outputs never overlap inputs unless the kernel says so.
//  - Floating storage may be f64, f32, f16 or bf16, mixed freely among inputs and outputs: arithmetic is in
//    f32 (f64 when any floating input is f64) and rounded once on store.
//  - Reductions, statistics and norms accumulate in f32 or wider, in an order that is fixed for a given
//    thread count.
//  - `accumulate` adds to what the output holds, in the arithmetic type: y ← y + result.
//  - Calls may return before the work is done (an asynchronous device); `synchronize` waits.
//  - Errors of the device's libraries arrive as VendorError.
//  - Empty tensors are legal everywhere.
//
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/allocator.h"
#include "core/attention.h"
#include "core/boxes.h"
#include "core/images.h"
#include "core/random.h"
#include "core/rnn.h"
#include "core/step_state.h"
#include "core/tensor.h"

namespace tandem {

class UpdateRule;  // core/kernels/update.h

// ---- elementwise

// Names a formula of core/kernels/formulas.h by its position in the list of formulas there.
enum class FormulaId : std::uint16_t {};

// The constants of a formula, such as a negative slope or the bounds of a clamp.
using Scalars = std::array<double, 4>;

// ---- shape

// Element (i0, i1, …) lies at offset + Σ ik·stride[k], in elements. Strides may be 0 (broadcast) or negative
// (flip).
struct StridedView {
  Index offset = 0;
  std::array<Index, kMaxRank> strides{};
};

enum class ResizeMode : std::uint8_t { nearest, bilinear };

struct ResizeOptions {
  ResizeMode mode = ResizeMode::nearest;
  bool align_corners = false;  // bilinear only: corner pixels stay where they are
  // Pixels of the result for one of the image, along height and width: what coordinates are divided by. 0:
  // the ratio of the extents. Not read where corners are aligned.
  std::array<double, 2> scale{0.0, 0.0};
  friend bool operator==(const ResizeOptions&, const ResizeOptions&) = default;
};

// ---- reduce

enum class Reduction : std::uint8_t {
  sum,
  mean,
  prod,
  max,
  min,
  argmax,
  argmin,
  sum_of_squares,
  sum_of_abs,
  max_abs,
  logsumexp
};

// ---- conv and pool: images [N,H,W,C], filters [O,KH,KW,I/groups]

struct Conv2dOptions {
  std::array<Index, 2> stride{1, 1};   // height, width
  std::array<Index, 2> padding{0, 0};  // on both sides
  std::array<Index, 2> dilation{1, 1};
  Index groups = 1;
  friend bool operator==(const Conv2dOptions&, const Conv2dOptions&) = default;
};

struct Pool2dOptions {
  std::array<Index, 2> kernel{2, 2};
  std::array<Index, 2> stride{2, 2};
  std::array<Index, 2> padding{0, 0};
  bool count_include_pad = true;  // average pooling: divide by the window's area even where it hangs over
  friend bool operator==(const Pool2dOptions&, const Pool2dOptions&) = default;
};

// ---- norm

// y = act(norm(x)·gamma + beta + residual) over all axes but the last; act is relu or the identity.
// Statistics and parameters are f32 (f64 for f64 x). Absent tensors: residual (none), gamma (ones), beta
// (zeros).
struct BatchNormForward {
  Tensor x, residual, gamma, beta;  // [.., C], [.., C], [C], [C]
  Tensor y;                         // [.., C]
  Tensor mean, rstd;                // [C], written
  Tensor mask;  // u8, one bit an element (padded up to whole bytes), written when relu; bit set: passes
  Tensor running_mean, running_var;  // [C] or absent; read; may be next_mean and next_var themselves
  // [2,C] or absent: Σ x and Σ x², as conv2d_with_sums gave them; batch_norm_train then reads x once.
  Tensor sums;
  Tensor next_mean, next_var;  // [C] or absent; (1-momentum)·running + momentum·batch, variance unbiased
  double eps = 1e-5, momentum = 0.1;
  bool relu = false;
};

struct BatchNormBackward {
  Tensor x, gamma, mean, rstd, mask;  // as saved by forward; mask absent without relu
  Tensor dy;                          // [.., C]
  Tensor dx;                          // [.., C] or absent; may be dy itself
  Tensor dresidual;                   // [.., C] or absent: the masked dy; may be dy itself
  Tensor dgamma, dbeta;               // [C] f32 or absent
  bool relu = false;
  bool frozen = false;  // the statistics were constants: dx = gamma·rstd·(masked dy)
  bool accumulate_dx = false, accumulate_dresidual = false, accumulate_dgamma = false,
       accumulate_dbeta = false;
};

// ---- softmax, cross entropy and Dice

struct CrossEntropyOptions {
  double label_smoothing = 0.0;
  std::optional<Index> ignore_index;
};

struct DiceOptions {
  bool squared = false;  // sums of p² instead of p
  std::optional<Index> ignore_index;
};

inline constexpr Index kMostDiceClasses = 256;

// ---- The interface

// Work that a device keeps, to do it again at once: see Backend::record.
class Recording {
 public:
  virtual ~Recording() = default;
  // Asks for the work in the order of everything else; reads and writes the memory it was recorded with.
  virtual void replay() = 0;
};

// What restricts the choice among a device's algorithms.
struct ComputeRules {
  bool allow_tf32 = true;      // f32 operands of products may be rounded to TF32 (10 bits of mantissa)
  bool deterministic = false;  // only algorithms with the same bits in every run; throws where there is none
  bool autotune = true;        // among several the fastest in a timing, else the one a fixed rule names
  friend bool operator==(const ComputeRules&, const ComputeRules&) = default;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual Device device() const = 0;
  virtual CachingAllocator& allocator() = 0;
  // Of all the device's memory in use, that of recordings included.
  virtual MemoryFigures memory() { return allocator().figures(); }
  virtual void reset_peak_memory() { allocator().reset_peak(); }
  // For what is asked for from now on. A CPU has no choice: it is always exact and deterministic.
  virtual void set_rules(const ComputeRules&) {}
  // Which algorithm was chosen for what, as text for a file, empty where nothing is chosen; and taken over
  // from an earlier run: false where the text is of another device or library.
  virtual std::string tuning_cache() const { return {}; }
  virtual bool adopt_tuning_cache(const std::string& /*text*/) { return false; }

  // Waits until everything asked for is done.
  virtual void synchronize() = 0;

  // ---- events: points in the order of what was asked for. A step's state is read on the host once its event
  // is done; 0 is done from the start.
  virtual std::uint64_t record_event() = 0;
  virtual bool event_done(std::uint64_t event) = 0;
  virtual void wait_event(std::uint64_t event) = 0;

  // ---- measurement: for profiles, not within `record`.
  // A point in time in the order of what was asked for: the device's clock when everything before is done.
  virtual std::uint64_t timestamp() = 0;
  // Waits for both. Where the device had to wait for the host between them, that counts too.
  virtual double seconds_between(std::uint64_t first, std::uint64_t last) = 0;
  // Forgets all timestamps, which grow in number otherwise.
  virtual void clear_timestamps() {}
  // Names what is asked for until the matching end_range to a tool that watches the device from outside
  // (NVTX, for Nsight Systems); nothing on a CPU. Ranges nest.
  virtual void begin_range(const char* /*name*/) {}
  virtual void end_range() {}

  // ---- transfer
  // Host memory for copies that do not wait: page-locked for a GPU, the host's own for a CPU.
  virtual CachingAllocator& transfer_allocator() = 0;
  // copy_bytes from transfer memory beside the computation: begins once `after` is done, and what is asked
  // for from now on sees y. y must be memory that nothing asked for after that event uses, so none that the
  // allocator has handed out since.
  virtual void upload(const Tensor& x, const Tensor& y, std::uint64_t after) = 0;

  // ---- recording
  // Whether `record` can be called.
  virtual bool records() const { return false; }
  // Runs `work`, and keeps what it asks of the device instead of doing it. `work` may not wait for the
  // device, nor touch host memory other than transfer memory. What it allocates is the recordings' alone
  // while one of them lives; they share it, so a replay ends what others left there. What `work` throws
  // passes through, and nothing is kept. Throws InternalError where records() is false.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work);

  // ---- elementwise
  virtual void fill(const Tensor& y, double value) = 0;
  // Same dtype and element count; one side may be host memory. Host memory of transfer_allocator is copied
  // without waiting: a host y may be read, a host x changed, once a later event is done. For other host
  // memory the call waits.
  virtual void copy_bytes(const Tensor& x, const Tensor& y) = 0;
  // Any dtype to any dtype, same shape.
  virtual void cast(const Tensor& x, const Tensor& y, bool accumulate = false) = 0;
  // y[i] = formula(inputs[0][i], …) with NumPy broadcasting of the inputs to y's shape. y may be an input of
  // its shape and dtype.
  virtual void pointwise(FormulaId formula, const Scalars& scalars, std::span<const Tensor> inputs,
                         const Tensor& y, bool accumulate = false) = 0;

  // ---- shape
  // y[to(i)] = x[from(i)] for every i in `extents`; the positions to(i) are distinct. Same dtype on both
  // sides, except that an accumulating copy may mix floating ones.
  virtual void strided_copy(const Tensor& x, const StridedView& from, const Tensor& y, const StridedView& to,
                            const Shape& extents, bool accumulate = false) = 0;
  // x [N,H,W,C] to y [N,H',W',C].
  virtual void resize2d(const Tensor& x, const Tensor& y, const ResizeOptions& options) = 0;
  virtual void resize2d_backward(const Tensor& dy, const Tensor& dx, const ResizeOptions& options) = 0;

  // ---- image
  // Records u8 [N,H,W,C], read through `windows` (N of ImageWindow, see there), to images y [N,H',W',C] of
  // any floating dtype: y = pixel·scale + offset, rounded to f32 once and then to y's dtype.
  virtual void render_images(const Tensor& records, const Tensor& windows, const ImageAffine& affine,
                             const Tensor& y) = 0;

  // ---- reduce
  // Over the axes whose bit is set in `axes`; y has the remaining elements in order (extent-1 axes are fine).
  // argmax and argmin write i64, need exactly one axis, and take the first of equals; NaN counts as largest
  // for both.
  virtual void reduce(Reduction op, const Tensor& x, std::uint32_t axes, const Tensor& y,
                      bool accumulate = false) = 0;
  virtual void cumsum(const Tensor& x, int axis, bool reverse, const Tensor& y) = 0;

  // ---- matmul
  // c[…,M,N] = op(a)·op(b) (+ bias[N]); a and b are [M,K] and [K,N] after their transposition and may carry
  // leading batch axes that are equal or absent.
  struct MatmulOptions {
    bool transpose_a = false, transpose_b = false;
    bool accumulate = false;
  };
  virtual void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
                      const MatmulOptions& options) = 0;

  // ---- conv
  virtual void conv2d(const Tensor& x, const Tensor& filter, const Tensor& bias, const Tensor& y,
                      const Conv2dOptions& options) = 0;
  // conv2d that also gives Σ y and Σ y² over all positions, f32 or f64 [2,O], without a pass over y. Absent,
  // and y is not to be read, where the device cannot, or would take longer than without. The variance that
  // follows from them, Σ y²/n - (Σ y/n)², loses about as many of their digits as (mean/deviation)² has.
  virtual Tensor conv2d_with_sums(const Tensor& /*x*/, const Tensor& /*filter*/, const Tensor& /*y*/,
                                  const Conv2dOptions&) {
    return {};
  }
  virtual void conv2d_input_gradient(const Tensor& dy, const Tensor& filter, const Tensor& dx,
                                     const Conv2dOptions& options, bool accumulate = false) = 0;
  virtual void conv2d_filter_gradient(const Tensor& x, const Tensor& dy, const Tensor& dfilter,
                                      const Conv2dOptions& options, bool accumulate = false) = 0;

  // ---- pool
  // `where` [N,H',W',C]: position in the window of the maximum (kh·KW + kw), u8 when the window has at most
  // 256 positions, else i32. NaN counts as largest; windows over padding see only real elements.
  virtual void max_pool2d(const Tensor& x, const Tensor& y, const Tensor& where,
                          const Pool2dOptions& options) = 0;
  virtual void max_pool2d_backward(const Tensor& dy, const Tensor& where, const Tensor& dx,
                                   const Pool2dOptions& options) = 0;
  // y = the elements of x that `where` chose; the adjoint of the line above, for second derivatives.
  virtual void max_pool2d_select(const Tensor& x, const Tensor& where, const Tensor& y,
                                 const Pool2dOptions& options) = 0;
  virtual void avg_pool2d(const Tensor& x, const Tensor& y, const Pool2dOptions& options) = 0;
  virtual void avg_pool2d_backward(const Tensor& dy, const Tensor& dx, const Pool2dOptions& options) = 0;
  // Windows as PyTorch's adaptive pooling: [floor(i·H/H'), ceil((i+1)·H/H')).
  virtual void adaptive_avg_pool2d(const Tensor& x, const Tensor& y) = 0;
  virtual void adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) = 0;

  // ---- norm
  // On a CPU y may be absent: the statistics alone.
  virtual void batch_norm_train(const BatchNormForward& args) = 0;
  // Uses args.running_mean and running_var as the statistics; writes y and, where given, the mask. y may be
  // residual itself.
  virtual void batch_norm_infer(const BatchNormForward& args) = 0;
  virtual void batch_norm_backward(const BatchNormBackward& args) = 0;
  // Rows of `width` elements: x viewed [rows, width]; gamma, beta [width] or absent; mean, rstd [rows] f32
  // (f64).
  virtual void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                          const Tensor& y, const Tensor& mean, const Tensor& rstd) = 0;
  // dgamma and dbeta may be absent, dx may be absent or dy itself; in group_norm_backward too.
  virtual void layer_norm_backward(const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                   const Tensor& rstd, const Tensor& dy, const Tensor& dx,
                                   const Tensor& dgamma, const Tensor& dbeta) = 0;
  // x [N, …, C]; mean, rstd [N, groups].
  virtual void group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, Index groups, double eps,
                          const Tensor& y, const Tensor& mean, const Tensor& rstd) = 0;
  virtual void group_norm_backward(const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                   const Tensor& rstd, Index groups, const Tensor& dy, const Tensor& dx,
                                   const Tensor& dgamma, const Tensor& dbeta) = 0;

  // ---- softmax
  virtual void softmax(const Tensor& x, int axis, bool log, const Tensor& y) = 0;
  virtual void softmax_backward(const Tensor& y, const Tensor& dy, int axis, bool log, const Tensor& dx) = 0;
  // Per-row loss of logits [N,C] against targets i64, i32 or u8 [N]; class_weights [C] or absent. Writes loss
  // [N], row_weight [N] (the weight of the row's target class, 0 where ignored) and lse [N] (log of the sum
  // of exponentials), all f32 (f64 for f64 logits). A target outside [0,C) that is not ignored sets loss to
  // NaN; the op's caller checks where it can without waiting, elsewhere the next synchronisation throws.
  virtual void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& class_weights,
                             const CrossEntropyOptions& options, const Tensor& loss, const Tensor& row_weight,
                             const Tensor& lse) = 0;
  // dlogits[n,c] = dloss[n] · d loss[n] / d logits[n,c]. dlogits may be the logits themselves.
  virtual void cross_entropy_backward(const Tensor& logits, const Tensor& targets,
                                      const Tensor& class_weights, const CrossEntropyOptions& options,
                                      const Tensor& lse, const Tensor& dloss, const Tensor& dlogits) = 0;
  // logits [N,K], K at most kMostDiceClasses; targets i64, i32 or u8 [N]. With p the softmax of a row (of one
  // column: its sigmoid, and the targets are 0 and 1) and g its target as 0 and 1, sums [3,K] f32 (f64 for
  // f64 logits) become Σ p·g, Σ p or Σ p², and Σ g over the rows that are not ignored. A target outside [0,K)
  // makes sums NaN; who finds it is as in cross_entropy.
  virtual void dice_sums(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                         const Tensor& sums) = 0;
  // dlogits, of the dtype of the logits, is the gradient of Σ_k slopes[0,k]·sums[0,k] +
  // slopes[1,k]·sums[1,k]; slopes [2,K] as sums.
  virtual void dice_backward(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                             const Tensor& slopes, const Tensor& dlogits) = 0;

  // ---- rnn: sequences (core/rnn.h)
  // Writes y, h_n and, for lstm, c_n.
  virtual RnnReserve rnn(const RnnForward& args) = 0;
  virtual void rnn_backward(const RnnBackward& args) = 0;

  // ---- attention (core/attention.h)
  // Over the last axis of x [N,…,Tq,Tk], of the keys that each query sees; 0 for the others, whatever x holds
  // there.
  virtual void masked_softmax(const Tensor& x, const AttentionMask& mask, const Tensor& y) = 0;
  // dx may be dy, which is not read where keys are not seen.
  virtual void masked_softmax_backward(const Tensor& y, const Tensor& dy, const AttentionMask& mask,
                                       const Tensor& dx) = 0;
  virtual void additive_attention(const AdditiveForward& args) = 0;
  virtual void additive_attention_backward(const AdditiveBackward& args) = 0;

  // ---- boxes (core/boxes.h)
  virtual void match_boxes(const BoxMatch& args) = 0;
  virtual void mine_negatives(const NegativeMining& args) = 0;

  // ---- index: indices are i64 (or i32) and must lie in range; a bad one throws UserError where the device
  // can tell without waiting, and otherwise raises the device's error at the next synchronisation.
  virtual void gather(const Tensor& x, const Tensor& index, int axis, const Tensor& y) = 0;
  // y starts as given; adds src at the positions of `index` along `axis`, in a fixed order.
  virtual void scatter_add(const Tensor& src, const Tensor& index, int axis, const Tensor& y) = 0;
  // index (K elements of any shape) picks slices of x along `axis`; y has extent K there. `op` is named by
  // errors.
  virtual void index_select(const Tensor& x, const Tensor& index, int axis, const Tensor& y,
                            const char* op = "index_select") = 0;
  // y starts as given; adds slice k of src to slice index[k] of y, in the order of k, unless index[k] is
  // `skip`.
  virtual void index_add(const Tensor& src, const Tensor& index, int axis, const Tensor& y,
                         std::optional<Index> skip = std::nullopt) = 0;
  // marks (u8 [V]): 1 at every index but `skip`; what else is there stays. Indices lie in [0, V).
  virtual void mark_rows(const Tensor& index, const Tensor& marks,
                         std::optional<Index> skip = std::nullopt) = 0;
  // x [V,E] f32: rows that are marked ← 0, and every mark ← 0.
  virtual void clear_rows(const Tensor& x, const Tensor& marks) = 0;
  virtual void one_hot(const Tensor& index, const Tensor& y) = 0;
  // values and indices (i64) of the k first along `axis` in sorted order; stable; NaN counts as largest.
  virtual void topk(const Tensor& x, Index k, int axis, bool largest, const Tensor& values,
                    const Tensor& indices) = 0;

  // ---- random: element i uses word i%4 of Philox block i/4
  virtual void random_uniform(const RandomKey& key, const Tensor& y, double low, double high) = 0;
  virtual void random_normal(const RandomKey& key, const Tensor& y, double mean, double stddev) = 0;
  // y = x · keep / (1-p); the same key gives the same mask, whatever the dtype. y may be x.
  virtual void dropout(const Tensor& x, const RandomKey& key, double p, const Tensor& y) = 0;

  // ---- update: flat f32 buffers, one StepState and one ScaleState in device memory; see core/step_state.h
  // Adds this loss (one f32 or f64 element), times `weight`, to the state, and tells the scale whether it is
  // finite.
  virtual void accumulate_loss(const Tensor& loss, double weight, const Tensor& state,
                               const Tensor& scale) = 0;
  // Adds to the state the sum of squares (f64) of the unscaled gradient over all ranges, and how many of its
  // elements are not finite. f32 (or f64, for loops without flat buffers). `scale` may be absent where the
  // gradient is unscaled.
  virtual void check_gradients(const Tensor& gradient, std::span<const UpdateRange> ranges,
                               const GradientCheck& check, const Tensor& state, const Tensor& scale) = 0;
  // target ← gradient / (scale · divisor · what its range carries), f32, over all ranges; elements that are
  // not finite before or after are counted in the state. target may be gradient.
  virtual void unscale(const Tensor& gradient, std::span<const UpdateRange> ranges,
                       const UnscaleOptions& options, const Tensor& target, const Tensor& state,
                       const Tensor& scale) = 0;
  // FloorAction::sanitize: infinities become ±65504, and NaN becomes 0 when the scale is at `floor`.
  virtual void sanitize(const Tensor& gradient, std::span<const UpdateRange> ranges, float floor,
                        const Tensor& scale) = 0;
  // One thread: sets skip, learning rate, clip factor and counters for this step, and tells the scale what
  // was found. lr_table is f64 [1+n]: the count of applied steps its first entry is for, then learning rates;
  // the last one holds beyond the end.
  virtual void decide_step(const StepRules& rules, const Tensor& lr_table, const Tensor& state,
                           const Tensor& scale) = 0;
  // One thread: the transition of the scale (core/kernels/loss_scale.h).
  virtual void update_scale(const ScaleRules& rules, const Tensor& scale) = 0;
  // One pass over masters, gradients and moments (LARS and LAMB: two); does nothing when the state says skip.
  // The gaps between ranges are not touched, nor rows without a mark. The result does not depend on the
  // number of threads.
  virtual void update(const UpdateRule& rule, std::span<const UpdateRange> ranges,
                      const UpdateBuffers& buffers, const Tensor& state) = 0;
  // Both f32: source → target when the step was applied, target → source when skipped or source not finite.
  virtual void commit_or_restore(const Tensor& source, const Tensor& target, const Tensor& state) = 0;
  // average ← decay·average + (1-decay)·value (both f32) when the step was applied.
  virtual void update_average(const Tensor& value, const Tensor& average, const AverageRule& rule,
                              const Tensor& state) = 0;
  // In place: every f32 element to the nearest value of a 16-bit type.
  virtual void round_to(const Tensor& x, DType dtype) = 0;
  // In place: x ← x·factor with every element limited to [-limit, limit]; NaN stays. f32 or f64.
  virtual void scale_and_limit(const Tensor& x, double factor, double limit) = 0;
};

// Uninitialised host memory that `device` copies from and to without waiting.
Tensor transfer_memory(const Shape& shape, DType dtype, Device device);

// The backend of a device; throws UserError when there is none, with the reason.
Backend& backend_for(Device device);

}  // namespace tandem
