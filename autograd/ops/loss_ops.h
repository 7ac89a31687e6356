// The op structs behind loss.h.
#pragma once

#include "autograd/ops/loss.h"
#include "autograd/ops/parts.h"
#include "core/op_options.h"

namespace tandem {

namespace ops {

struct Loss {
  Tensor loss;
};

struct CrossEntropy {
  CrossEntropyOptions options;
  Reduce reduce = Reduce::mean;
  static constexpr OpInfo info{"cross_entropy", CastRule::fp32, {.kind = OpKind::loss}, {data, keep, keep}};
  struct In {
    Tensor logits, target, class_weights;
  };  // [N,C], i64, i32 or u8 [N], [C] or absent
  struct Saved {
    Tensor logits, target, class_weights, lse, divisor;
  };
  Loss forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Loss& dloss, const Needs&) const;
};

// Fused; inside a HigherOrder scope `composed` runs, which stores the logits.
struct LinearCrossEntropy {
  CrossEntropyOptions options;
  Reduce reduce = Reduce::mean;
  Index chunk_rows = 0;
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static constexpr OpInfo info{"linear_cross_entropy",
                               CastRule::lower,
                               {.kind = OpKind::loss, .products = products, .weight = 1, .wide_results = 1},
                               {data, data, data, keep, keep}};
  struct In {
    Tensor x, weight, bias, target, class_weights;
  };  // [N,C], [V,C], [V] or absent, i64, i32 or u8 [N], [V] or absent
  // Gradients of the sum of the rows' losses, times gradient_scale() (loss_linear.cpp).
  struct Saved {
    Tensor dx, dweight, dbias, divisor;
  };
  Loss forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Loss& dloss, const Needs&) const;
  static Loss composed(const LinearCrossEntropy& op, const In& in);
};

struct SoftCrossEntropy {
  double label_smoothing = 0.0;
  Reduce reduce = Reduce::mean;
  static constexpr OpInfo info{
      "soft_cross_entropy", CastRule::fp32, {.kind = OpKind::loss}, {data, keep, keep}};
  struct In {
    Tensor logits, target, class_weights;
  };  // [N,C], [N,C], [C] or absent
  Loss forward(Context&, In&, const In&) const;
  In backward(const In&, const Loss& dloss, const Needs&) const;
};

struct NllLoss {
  std::optional<Index> ignore_index;
  Reduce reduce = Reduce::mean;
  Shape shape;  // of x, [N,C]
  static constexpr OpInfo info{"nll_loss", CastRule::fp32, {.kind = OpKind::loss}, {data, keep, keep}};
  struct In {
    Tensor x, target, class_weights;
  };
  struct Saved {
    Tensor index, row_weight, divisor;
  };  // [N,1], [N], scalar
  Loss forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Loss& dloss, const Needs&) const;
};

struct DiceLoss {
  DiceLossOptions options;
  static constexpr OpInfo info{"dice_loss", CastRule::fp32, {.kind = OpKind::loss}, {data, keep}};
  struct In {
    Tensor logits, target;
  };  // [N,K], of one column: its sigmoid; i64, i32 or u8 [N]
  struct Saved {
    Tensor logits, target, numerator, denominator;
  };  // of Dice, [K]
  Loss forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Loss& dloss, const Needs&) const;
};

// A loss of corresponding elements. A rule defines its name, its cast rule, value(x, t) and the derivatives
// dx(x, t) and, unless it is symmetric, dt(x, t), by public ops on f32 or f64 tensors of one shape. A
// symmetric rule may define gradient(x, t, g): dx(x, t)·g, used when the gradient is not differentiated.
template <class Rule>
struct PointwiseLoss {
  Rule rule;
  Reduce reduce = Reduce::mean;
  static constexpr OpInfo info{Rule::kName, Rule::kCast, {.kind = OpKind::loss}, {data, keep}};
  struct In {
    Tensor x, target;
  };
  Loss forward(Context&, In&, const In&) const;
  In backward(const In&, const Loss& dloss, const Needs&) const;
};

namespace loss_rules {

struct Deviation {  // even functions of x - t: dt(x, t) is dx(t, x)
  static constexpr CastRule kCast = CastRule::fp32;
};
struct Mse : Deviation {
  static constexpr const char* kName = "mse_loss";
  Tensor value(const Tensor& x, const Tensor& t) const;
  Tensor dx(const Tensor& x, const Tensor& t) const;
};
struct L1 : Deviation {
  static constexpr const char* kName = "l1_loss";
  Tensor value(const Tensor& x, const Tensor& t) const;
  Tensor dx(const Tensor& x, const Tensor& t) const;
};
struct SmoothL1 : Deviation {
  static constexpr const char* kName = "smooth_l1_loss";
  double beta = 1.0;
  Tensor value(const Tensor& x, const Tensor& t) const;
  Tensor dx(const Tensor& x, const Tensor& t) const;
  Tensor gradient(const Tensor& x, const Tensor& t, const Tensor& g) const;
};
struct Huber : Deviation {
  static constexpr const char* kName = "huber_loss";
  double delta = 1.0;
  Tensor value(const Tensor& x, const Tensor& t) const;
  Tensor dx(const Tensor& x, const Tensor& t) const;
  Tensor gradient(const Tensor& x, const Tensor& t, const Tensor& g) const;
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

}  // namespace ops

}  // namespace tandem
