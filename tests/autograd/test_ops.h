// Small ops that the tests of the tape control completely.
#pragma once

#include "autograd/apply.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/error.h"

namespace tandem::test {

// y = factor·x, with a chosen cast rule.
template <CastRule rule = CastRule::neutral>
struct Scale {
  double factor = 1.0;
  static constexpr OpInfo info{"test_scale", rule};
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context& context, Saved&, const In& in) const {
    const Tensor wide = mul(in.x.detach(), factor);
    if (wide.dtype() == context.dtype) return {wide};
    const Tensor y = context.empty(in.x.shape());
    context.backend.cast(wide, y);
    return {y};
  }
  In backward(const Saved&, const Out& dy, const Needs&) const { return {mul(dy.y, factor)}; }
};

inline Tensor scale(const Tensor& x, double factor) { return apply(Scale<>{factor}, {x}).y; }
inline Tensor scale_low(const Tensor& x, double factor) {
  return apply(Scale<CastRule::lower>{factor}, {x}).y;
}

// The identity; backward throws while `failures` is positive.
struct Faulty {
  int* failures = nullptr;
  static constexpr OpInfo info{"test_faulty", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In& in) const { return {in.x.clone()}; }
  In backward(const Saved&, const Out& dy, const Needs&) const {
    if ((*failures)-- > 0) throw UserError("test_faulty", "as asked");
    return {dy.y};
  }
};

// x³ with a fused backward; HigherOrder runs `composed`.
struct FusedCube {
  static constexpr OpInfo info{"test_fused_cube", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {
    Tensor x;
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved& saved, const In& in) const {
    saved.x = in.x;
    const Tensor x = in.x.detach();
    return {mul(mul(x, x), x)};
  }
  In backward(const Saved& saved, const Out& dy, const Needs&) const {
    return {mul(mul(mul(saved.x, saved.x), 3.0), dy.y)};
  }
  static Out composed(const FusedCube&, const In& in) { return {mul(mul(in.x, in.x), in.x)}; }
};

// Adds or writes x·y (f32, on the host) into whatever destination it is offered; counts how it was asked.
struct ProductIntoSink {
  int* offered = nullptr;
  int* accumulated = nullptr;
  static constexpr OpInfo info{"test_product_into_sink", CastRule::none};
  struct In {
    Tensor x, y;
  };
  struct Saved {};
  struct Out {
    Tensor z;
  };
  Out forward(Context& context, Saved&, const In& in) const {
    const GradOutput to = context.destination(in.x.shape(), DType::f32);
    const auto x = in.x.to_vector<float>(), y = in.y.to_vector<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      float& z = to.tensor.data<float>()[i];
      z = x[i] * y[i] + (to.accumulate ? z : 0.0f);
    }
    if (accumulated) *accumulated += to.accumulate;
    return {to.tensor};
  }
  In backward(const Saved&, const Out&, const Needs&) const { return {}; }
};

// a·b elementwise, whose gradients are written into the engine's sinks where there are any.
struct SinkingProduct {
  int* offered = nullptr;
  int* accumulated = nullptr;
  static constexpr OpInfo info{"test_sinking_product", CastRule::neutral};
  struct In {
    Tensor a, b;
  };
  struct Saved {
    Tensor a, b;
  };
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved& saved, const In& in) const {
    saved = {in.a, in.b};
    return {mul(in.a.detach(), in.b.detach())};
  }
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const {
    In d;
    const ProductIntoSink product{offered, accumulated};
    if (offered) *offered += (needs.sink(0) != nullptr) + (needs.sink(1) != nullptr);
    if (needs[0]) d.a = apply(product, {dy.y, saved.b}, needs.sink(0)).z;
    if (needs[1]) d.b = apply(product, {dy.y, saved.a}, needs.sink(1)).z;
    return d;
  }
};

// Two outputs, x+1 and 2x; backward notes which output gradients were present.
struct TwoOutputs {
  int* present = nullptr;
  static constexpr OpInfo info{"test_two_outputs", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    Tensor plus, twice;
  };
  Out forward(Context&, Saved&, const In& in) const {
    return {add(in.x.detach(), 1.0), mul(in.x.detach(), 2.0)};
  }
  In backward(const Saved&, const Out& dy, const Needs&) const {
    if (present) *present = dy.plus.defined() + 2 * dy.twice.defined();
    if (!dy.twice.defined()) return {dy.plus};
    const Tensor twice = mul(dy.twice, 2.0);
    return {dy.plus.defined() ? add(dy.plus, twice) : twice};
  }
};

// Backward gives a gradient of the wrong shape.
struct WrongShape {
  static constexpr OpInfo info{"test_wrong_shape", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In& in) const { return {in.x.clone()}; }
  In backward(const Saved&, const Out&, const Needs&) const { return {Tensor::zeros({17})}; }
};

}  // namespace tandem::test
