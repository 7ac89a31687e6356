// Losses. All are computed in f32 (f64 for f64), return a scalar of that type unless Reduce::none is
// requested, and are differentiable any number of times. Formulas are PyTorch's.
//
// Errors: UserError "[loss] …" when shapes differ, a dtype is unsupported, an option is out of range, or a
// class lies outside [0,C). A mean over no element is NaN. Exception: if all rows of a cross entropy or NLL
// are ignored (or their weights sum to 0), the divisor is 1 and loss and gradient are 0, so that a batch
// without targets changes nothing.
#pragma once

#include <optional>

#include "autograd/op.h"

namespace tandem {

enum class Reduce : std::uint8_t { none, mean, sum };

struct CrossEntropyLossOptions {
  double label_smoothing = 0.0;         // in [0,1)
  std::optional<Index> ignore_index{};  // rows with this target are excluded, also from the mean
  Tensor class_weights{};               // [C] or absent; the mean divides by the sum of the targets' weights
  Reduce reduce = Reduce::mean;
};

// logits [N,C] (or [...,C]: [N,H,W,C] with masks [N,H,W]); target: classes i64, i32 or u8 [N] (…), or
// floating probabilities [N,C]. Fused for classes. Throws UserError with value and row when a class lies
// outside [0,C). Probabilities exclude ignore_index, and their mean divides by the number of rows.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyLossOptions& options = {});
// cross_entropy(linear(x, weight, bias), target) for x [...,C], weight [V,C] and classes [...], without
// storing the logits [...,V]: they are computed for some rows at a time, by default at most 64 MiB
// (`chunk_rows`: rows; 0: that default), and with them the gradients. Those of weight and bias are sums in
// f32. Forward thus does the work of backward, which only multiplies by the gradient of the loss, and keeps
// f32 gradients of x and weight in between. A mean or a sum only; otherwise as cross_entropy.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                            const Tensor& bias = {}, const CrossEntropyLossOptions& options = {},
                            Index chunk_rows = 0);
// log_probabilities [N,C] (or [...,C]), target i64, i32 or u8 [N] (…); no label smoothing.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                const CrossEntropyLossOptions& options = {});

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::mean);
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::mean);
// With d = |x - target|: d²/(2·beta) below beta, d - beta/2 from there on; beta 0 is l1_loss.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1.0, Reduce reduce = Reduce::mean);
// d²/2 below delta, delta·(d - delta/2) from there on.
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1.0, Reduce reduce = Reduce::mean);
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, Reduce reduce = Reduce::mean);
// Probabilities; logarithms are clamped at -100. Refused in 16-bit regions: use bce_with_logits.
Tensor bce_loss(const Tensor& probabilities, const Tensor& target, Reduce reduce = Reduce::mean);
// Sum of target·(log target - x); x holds log-probabilities. The mean divides by the number of elements.
Tensor kl_div(const Tensor& log_probabilities, const Tensor& target, Reduce reduce = Reduce::mean);
// Sigmoid focal loss (Lin et al. 2017); alpha < 0 switches balancing off.
Tensor focal_loss(const Tensor& logits, const Tensor& target, double alpha = 0.25, double gamma = 2.0,
                  Reduce reduce = Reduce::mean);

struct DiceLossOptions {
  double epsilon = 1e-6;                // added to numerator and denominator; not negative
  bool squared = false;                 // the denominator sums squares (Milletari, Navab and Ahmadi 2016)
  std::optional<Index> ignore_index{};  // elements with this target are excluded
};

// 1 - Dice, a scalar. With p the probabilities and g the truth of a class (0 or 1), both summed over the
// whole batch, Dice = (2·Σpg + ε)/(Σp + Σg + ε), with `squared` (2·Σpg + ε)/(Σp² + Σg² + ε); the loss is the
// mean over classes. Dice is 1 for a class that is neither present nor predicted.
//
// logits [...,K] with K >= 2 (p is their softmax), target i64, i32 or u8 [...]: [N,H,W,K] with masks [N,H,W].
// Errors as in cross_entropy.
Tensor dice_loss(const Tensor& logits, const Tensor& target, const DiceLossOptions& options = {});
// For one class: logits [...] or [...,1] (p is their sigmoid), mask i64, i32, u8 or bool [...] of 0 and 1.
Tensor binary_dice_loss(const Tensor& logits, const Tensor& mask, const DiceLossOptions& options = {});

}  // namespace tandem
