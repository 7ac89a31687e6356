// Losses. All are computed in f32 (f64 for f64) and return a scalar unless Reduce::none is asked for.
#pragma once

#include <optional>

#include "autograd/op.h"

namespace tandem {

enum class Reduce : std::uint8_t { none, mean, sum };

struct CrossEntropyLossOptions {
  double label_smoothing = 0.0;       // in [0,1)
  std::optional<Index> ignore_index;  // rows with this target count for nothing, in the mean either
  Tensor class_weights;               // [C] or absent; the mean divides by the sum of the targets' weights
  Reduce reduce = Reduce::mean;
};

// logits [N,C] (or [...,C]); target i64 [N] (…): the class, or floating [N,C]: probabilities. Fused for classes.
// UserError when a class lies outside [0,C), with the value and the row.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyLossOptions& options = {});
// log_probabilities [N,C], target i64 [N].
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const CrossEntropyLossOptions& options = {});

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::mean);
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::mean);
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1.0, Reduce reduce = Reduce::mean);
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1.0, Reduce reduce = Reduce::mean);
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, Reduce reduce = Reduce::mean);
// Probabilities; logarithms are clamped at -100. Refused in 16-bit regions: use bce_with_logits.
Tensor bce_loss(const Tensor& probabilities, const Tensor& target, Reduce reduce = Reduce::mean);
// Sum of target·(log target - x); x holds log-probabilities. The mean divides by the number of elements.
Tensor kl_div(const Tensor& log_probabilities, const Tensor& target, Reduce reduce = Reduce::mean);
// Sigmoid focal loss (Lin et al. 2017): alpha < 0 switches the balancing off.
Tensor focal_loss(const Tensor& logits, const Tensor& target, double alpha = 0.25, double gamma = 2.0,
                  Reduce reduce = Reduce::mean);

}  // namespace tandem
