// Matrix products. All accumulate in f32 (f64 for f64). UserError, naming the shapes, when ranks, inner
// extents or batch axes do not fit, or an operand is not floating.
#pragma once

#include "autograd/op.h"

namespace tandem {

// [M,K]·[K,N] → [M,N]; leading batch axes must be equal or absent on one side. A flag means that operand is
// stored transposed ([K,M], [N,K]).
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);
// [B,M,K]·[B,K,N] → [B,M,N]; UserError unless both are rank 3.
Tensor bmm(const Tensor& a, const Tensor& b);
// x [...,I] · weight [O,I] transposed + bias [O] (or absent) → [...,O].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// ---- the ops

struct Matmul {
  bool transpose_a = false, transpose_b = false;
  static constexpr OpInfo info{"matmul", CastRule::lower};
  struct In {
    Tensor a, b;
  };
  struct Saved {
    Tensor a, b;
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

struct Linear {
  static constexpr OpInfo info{"linear", CastRule::lower};
  struct In {
    Tensor x, weight, bias;
  };
  struct Saved {
    Tensor x, weight;
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

// left [...,P], right [...,Q], the same leading axes → [P,Q] = Σ leftᵀ·right in f32 (f64 for f64): the
// gradient of a weight that served every row.
struct SumOfOuterProducts {
  static constexpr OpInfo info{"sum_of_outer_products", CastRule::lower};
  struct In {
    Tensor left, right;
  };
  struct Saved {
    Tensor left, right;
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

// x [...,C] → [C] in f32 (f64 for f64): the sum over all axes but the last, the gradient of a bias.
struct BiasGradient {
  static constexpr OpInfo info{"bias_gradient", CastRule::none};
  struct In {
    Tensor x;
  };
  struct Saved {
    Tensor x;
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In&) const;
  In backward(const Saved&, const Out& dy, const Needs&) const;
};

Tensor sum_of_outer_products(const Tensor& left, const Tensor& right, const Destination* sink = nullptr);
Tensor bias_gradient(const Tensor& x, const Destination* sink = nullptr);

using MatmulOps = TypeList<Matmul, Linear, SumOfOuterProducts, BiasGradient>;

}  // namespace tandem
