// Losses. All are computed in f32 (f64 for f64), return a scalar of that type unless Reduce::none is asked
// for, and are differentiable any number of times. Formulas are PyTorch's.
//
// Errors: UserError "[loss] …" when shapes differ, a dtype has no meaning, an option is out of range, or a
// class lies outside [0,C). A mean over no element is NaN, except that a cross entropy or NLL whose rows are
// all ignored (or whose weights sum to 0) is divided by 1: it is 0, with a gradient of 0, so that a batch
// without a target changes nothing.
#pragma once

#include <optional>

#include "autograd/op.h"

namespace tandem {

enum class Reduce : std::uint8_t { none, mean, sum };

struct CrossEntropyLossOptions {
  double label_smoothing = 0.0;         // in [0,1)
  std::optional<Index> ignore_index{};  // rows with this target count for nothing, in the mean either
  Tensor class_weights{};               // [C] or absent; the mean divides by the sum of the targets' weights
  Reduce reduce = Reduce::mean;
};

// logits [N,C] (or [...,C]); target i64 [N] (…): the class, or floating [N,C]: probabilities. Fused for
// classes. UserError when a class lies outside [0,C), with the value and the row. Probabilities take no
// ignore_index, and their mean divides by the number of rows.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyLossOptions& options = {});
// log_probabilities [N,C] (or [...,C]), target i64 [N] (…); no label smoothing.
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
// Sigmoid focal loss (Lin et al. 2017): alpha < 0 switches the balancing off.
Tensor focal_loss(const Tensor& logits, const Tensor& target, double alpha = 0.25, double gamma = 2.0,
                  Reduce reduce = Reduce::mean);

// ---- The ops
// ----------------------------------------------------------------------------------------------------

struct CrossEntropy {
  CrossEntropyOptions options;
  Reduce reduce = Reduce::mean;
  static constexpr OpInfo info{"cross_entropy", CastRule::fp32, {data, keep, keep}};
  struct In {
    Tensor logits, target, class_weights;
  };  // [N,C], i64 or i32 [N], [C] or absent
  struct Saved {
    Tensor logits, target, class_weights, lse, divisor;
  };
  struct Out {
    Tensor loss;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dloss, const Needs&) const;
};

struct SoftCrossEntropy {
  double label_smoothing = 0.0;
  Reduce reduce = Reduce::mean;
  static constexpr OpInfo info{"soft_cross_entropy", CastRule::fp32, {data, keep, keep}};
  struct In {
    Tensor logits, target, class_weights;
  };  // [N,C], [N,C], [C] or absent
  struct Saved {
    Tensor logits, target, class_weights;
  };
  struct Out {
    Tensor loss;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dloss, const Needs&) const;
};

struct NllLoss {
  std::optional<Index> ignore_index;
  Reduce reduce = Reduce::mean;
  Shape shape;  // of x, [N,C]
  static constexpr OpInfo info{"nll_loss", CastRule::fp32, {data, keep, keep}};
  struct In {
    Tensor x, target, class_weights;
  };
  struct Saved {
    Tensor index, row_weight, divisor;
  };  // [N,1], [N], scalar
  struct Out {
    Tensor loss;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dloss, const Needs&) const;
};

// A loss that is a function of corresponding elements. A rule gives its name, its cast rule, value(x, t) and
// the derivatives dx(x, t) and dt(x, t), all by public ops on f32 or f64 tensors of one shape.
template <class Rule>
struct PointwiseLoss {
  Rule rule;
  Reduce reduce = Reduce::mean;
  static constexpr OpInfo info{Rule::kName, Rule::kCast, {data, keep}};
  struct In {
    Tensor x, target;
  };
  struct Saved {
    Tensor x, target;
  };
  struct Out {
    Tensor loss;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dloss, const Needs&) const;
};

namespace loss_rules {

struct Deviation {  // rules that depend on x - t only
  static constexpr CastRule kCast = CastRule::fp32;
};
struct Mse : Deviation {
  static constexpr const char* kName = "mse_loss";
  Tensor value(const Tensor& x, const Tensor& t) const;
  Tensor dx(const Tensor& x, const Tensor& t) const;
  Tensor dt(const Tensor& x, const Tensor& t) const;
};
struct L1 : Deviation {
  static constexpr const char* kName = "l1_loss";
  Tensor value(const Tensor& x, const Tensor& t) const;
  Tensor dx(const Tensor& x, const Tensor& t) const;
  Tensor dt(const Tensor& x, const Tensor& t) const;
};
struct SmoothL1 : Deviation {
  static constexpr const char* kName = "smooth_l1_loss";
  double beta = 1.0;
  Tensor value(const Tensor& x, const Tensor& t) const;
  Tensor dx(const Tensor& x, const Tensor& t) const;
  Tensor dt(const Tensor& x, const Tensor& t) const;
};
struct Huber : Deviation {
  static constexpr const char* kName = "huber_loss";
  double delta = 1.0;
  Tensor value(const Tensor& x, const Tensor& t) const;
  Tensor dx(const Tensor& x, const Tensor& t) const;
  Tensor dt(const Tensor& x, const Tensor& t) const;
};
struct BceWithLogits {
  static constexpr const char* kName = "bce_with_logits";
  static constexpr CastRule kCast = CastRule::fp32;
  Tensor value(const Tensor& x, const Tensor& t) const;
  Tensor dx(const Tensor& x, const Tensor& t) const;
  Tensor dt(const Tensor& x, const Tensor& t) const;
};
struct Bce {
  static constexpr const char* kName = "bce_loss";
  static constexpr CastRule kCast = CastRule::banned;
  Tensor value(const Tensor& x, const Tensor& t) const;
  Tensor dx(const Tensor& x, const Tensor& t) const;
  Tensor dt(const Tensor& x, const Tensor& t) const;
};
struct KlDiv {
  static constexpr const char* kName = "kl_div";
  static constexpr CastRule kCast = CastRule::fp32;
  Tensor value(const Tensor& x, const Tensor& t) const;
  Tensor dx(const Tensor& x, const Tensor& t) const;
  Tensor dt(const Tensor& x, const Tensor& t) const;
};
struct Focal {
  static constexpr const char* kName = "focal_loss";
  static constexpr CastRule kCast = CastRule::fp32;
  double alpha = 0.25, gamma = 2.0;
  Tensor value(const Tensor& x, const Tensor& t) const;
  Tensor dx(const Tensor& x, const Tensor& t) const;
  Tensor dt(const Tensor& x, const Tensor& t) const;
};

}  // namespace loss_rules

using LossOps = TypeList<CrossEntropy, SoftCrossEntropy, NllLoss, PointwiseLoss<loss_rules::Mse>,
                         PointwiseLoss<loss_rules::L1>, PointwiseLoss<loss_rules::SmoothL1>,
                         PointwiseLoss<loss_rules::Huber>, PointwiseLoss<loss_rules::BceWithLogits>,
                         PointwiseLoss<loss_rules::Bce>, PointwiseLoss<loss_rules::KlDiv>,
                         PointwiseLoss<loss_rules::Focal>>;

}  // namespace tandem
