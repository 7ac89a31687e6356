// Softmax kernels, with the losses that contain one: cross entropy and Dice.
#pragma once

#include <optional>

#include "core/op_options.h"
#include "core/tensor.h"

namespace tandem {

struct DiceOptions {
  bool squared = false;  // sums of p² instead of p
  std::optional<Index> ignore_index;
};

inline constexpr Index kMostDiceClasses = 256;

struct SoftmaxKernels {
  virtual ~SoftmaxKernels() = default;

  virtual void softmax(const Tensor& x, int axis, bool log, const Tensor& y) = 0;
  virtual void softmax_backward(const Tensor& y, const Tensor& dy, int axis, bool log, const Tensor& dx) = 0;
  // Loss per row of logits [N,C] with targets i64, i32 or u8 [N]; class_weights [C] or absent. Writes loss
  // [N], row_weight [N] (the weight of the row's target class, 0 if ignored) and lse [N] (log of the sum
  // of exponentials), all f32 (f64 for f64 logits). A target outside [0,C) that is not ignored sets loss to
  // NaN; on an asynchronous device the next synchronisation throws.
  virtual void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& class_weights,
                             const CrossEntropyOptions& options, const Tensor& loss, const Tensor& row_weight,
                             const Tensor& lse) = 0;
  // dlogits[n,c] = dloss[n] · d loss[n] / d logits[n,c]. dlogits may be the logits themselves.
  virtual void cross_entropy_backward(const Tensor& logits, const Tensor& targets,
                                      const Tensor& class_weights, const CrossEntropyOptions& options,
                                      const Tensor& lse, const Tensor& dloss, const Tensor& dlogits) = 0;
  // logits [N,K], K at most kMostDiceClasses; targets i64, i32 or u8 [N]. p is the softmax of a row (for K =
  // 1 the sigmoid, with targets 0 and 1), g its one-hot target. Writes sums [3,K], f32 (f64 for f64 logits),
  // over the rows that are not ignored: Σ p·g, Σ p (or Σ p²) and Σ g. A target outside [0,K) makes sums NaN
  // and is reported as in cross_entropy.
  virtual void dice_sums(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                         const Tensor& sums) = 0;
  // dlogits, of the dtype of the logits, is the gradient of Σ_k slopes[0,k]·sums[0,k] +
  // slopes[1,k]·sums[1,k]; slopes [2,K] has the dtype of sums.
  virtual void dice_backward(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                             const Tensor& slopes, const Tensor& dlogits) = 0;
};

}  // namespace tandem
