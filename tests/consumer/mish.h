// mish(x) = x·tanh(log(1 + eˣ)) (Misra, "Mish: a self regularized non-monotonic activation function", 2019):
// an op outside Tandem's tree, with a kernel of its own for every floating type of the CPU.
#pragma once

#include <tandem/autograd/apply.h>
#include <tandem/core/convert.h>
#include <tandem/tandem.h>

#include <cmath>

namespace consumer {

struct Mish {
  // Under mixed precision it follows its input; lower would cast it to 16 bits, fp32 would compute in FP32.
  static constexpr tandem::OpInfo info{
      "mish", tandem::CastRule::neutral, {.kind = tandem::OpKind::elementwise}};
  struct In {
    tandem::Tensor x;
  };
  struct Saved {
    tandem::Tensor x;
  };
  struct Out {
    tandem::Tensor y;
  };

  Out forward(tandem::Context& context, Saved& saved, const In& in) const {
    tandem::require(is_floating(in.x.dtype()), info.name, "expects a floating tensor, got {}",
                    to_string(in.x));
    const bool shapes =
        in.x.device().type == tandem::DeviceType::shapes;  // a model is checked: tensors have no values
    tandem::require(in.x.device() == tandem::Device{} || shapes, info.name,
                    "computes on the CPU only, got {}", to_string(in.x));
    Out out{context.empty(in.x.shape())};
    saved.x = in.x;
    if (shapes) return out;
    tandem::visit_floating(in.x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      using Wide = tandem::ComputeType<T>;  // float for 16 bits: widen, compute, round once
      const T* x = in.x.data<T>();
      T* y = out.y.data<T>();
      for (tandem::Index i = 0; i < in.x.numel(); ++i) {
        const Wide v = tandem::convert<Wide>(x[i]);
        y[i] = tandem::convert<T>(v * std::tanh(std::log1p(std::exp(v))));
      }
    });
    return out;
  }

  // Public ops, so that it can be differentiated again.
  In backward(const Saved& saved, const Out& dy, const tandem::Needs& needs) const {
    if (!needs[0] || !dy.y.defined()) return {};
    const tandem::Tensor t = tanh(softplus(saved.x));
    return {dy.y * (t + saved.x * sigmoid(saved.x) * (1.0 - t * t))};
  }
};

inline tandem::Tensor mish(const tandem::Tensor& x) { return tandem::apply(Mish{}, {x}).y; }

}  // namespace consumer
