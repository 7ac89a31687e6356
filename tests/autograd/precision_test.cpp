// The precision policy and the observers, the two hooks of `apply`.
#include <algorithm>
#include <catch2/catch.hpp>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "tests/autograd/test_ops.h"
#include "tests/support/errors.h"
#include "tests/support/policy.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// Writes down which ops ran and the dtypes they saw.
struct Log final : OpObserver {
  std::vector<std::string> lines;
  void after_forward(const OpInfo& info, std::span<const Tensor> in, std::span<const Tensor> out) override {
    lines.push_back(std::string(info.name) + ": " + to_string(in[0]) + " to " + to_string(out[0]));
  }
  void before_backward(const Node& node, std::span<const Tensor> dy) override {
    lines.push_back(std::string(node.info().name) + " backward: " + to_string(dy[0]));
  }
};

// Its backward asks for an op that autocast would lower.
struct LowInBackward {
  static constexpr OpInfo info{"test_low_in_backward", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context&, Saved&, const In& in) const { return {in.x.clone()}; }
  In backward(const Saved&, const Out& dy, const Needs&) const { return {scale_low(dy.y, 257.0)}; }
};

// Checks what it was given: its second input is none of precision's business.
struct Keeper {
  static constexpr OpInfo info{"test_keeper", CastRule::lower, {data, keep}};
  struct In {
    Tensor x, statistics;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context& context, Saved&, const In& in) const {
    CHECK(in.x.dtype() == DType::bf16);
    CHECK(in.statistics.dtype() == DType::f32);
    CHECK(context.dtype == DType::bf16);
    return {in.x.clone()};
  }
  In backward(const Saved&, const Out& dy, const Needs&) const { return {dy.y, {}}; }
};

}  // namespace

TEST_CASE("a lower op casts its inputs on the tape; the leaf's gradient is f32", "[precision]") {
  RulePolicy policy(DType::bf16);
  const Tensor x = leaf(Tensor::from({1, 2}, {2}));
  Tensor y;
  Log log;
  {
    const PrecisionScope scope(&policy);
    const ObserverScope observing(log);
    y = scale_low(x, 3.0);
  }
  CHECK(y.dtype() == DType::bf16);
  CHECK(y.to_vector<double>() == std::vector<double>{3, 6});
  CHECK(log.lines.at(0) == "cast: f32[2] to bf16[2]");
  CHECK(log.lines.back() == "test_scale: bf16[2] to bf16[2]");
  // The tape: scale → cast → leaf.
  const Node* scale_node = node_of(y);
  const auto* cast_node = static_cast<const Node*>(scale_node->inputs.at(0).node.get());
  CHECK(std::string(scale_node->info().name) == "test_scale");
  CHECK(std::string(cast_node->info().name) == "cast");
  CHECK(cast_node->inputs.at(0).node == x.edge().node);
  backward(sum(cast(y, DType::f32)));
  CHECK(gradient_of(x).dtype() == DType::f32);
  CHECK(gradient_of(x).to_vector<double>() == std::vector<double>{3, 3});
}

TEST_CASE("the rules decide dtypes; f64 and integers are not touched", "[precision]") {
  RulePolicy policy(DType::f16);
  const PrecisionScope scope(&policy);
  const Tensor full = Tensor::from({1, 2}, {2}), half = cast(full, DType::f16),
               brain = cast(full, DType::bf16);
  CHECK(scale_low(full, 1.0).dtype() == DType::f16);
  CHECK(scale_low(half, 1.0).dtype() == DType::f16);
  CHECK(scale_low(cast(full, DType::f64), 1.0).dtype() == DType::f64);
  CHECK(apply(Scale<CastRule::fp32>{1.0}, {half}).y.dtype() == DType::f32);
  CHECK(apply(Scale<CastRule::neutral>{1.0}, {half}).y.dtype() == DType::f16);
  CHECK(apply(Scale<CastRule::none>{1.0}, {brain}).y.dtype() == DType::bf16);
  CHECK_FAILS(UserError, apply(Scale<CastRule::banned>{1.0}, {full}), "[test_scale] is refused");
  CHECK(add(half, full).dtype() == DType::f32);
  CHECK(add(half, half).dtype() == DType::f16);
  CHECK(add(half, brain).dtype() == DType::f32);
}

TEST_CASE("scopes nest, and nullptr switches precision off", "[precision]") {
  RulePolicy half(DType::f16), brain(DType::bf16);
  const Tensor x = Tensor::from({1}, {1});
  const PrecisionScope outer(&half);
  {
    const PrecisionScope inner(&brain);
    CHECK(scale_low(x, 1.0).dtype() == DType::bf16);
    const PrecisionScope off(nullptr);
    CHECK(scale_low(x, 1.0).dtype() == DType::f32);
  }
  try {
    const PrecisionScope inner(&brain);
    throw 1;
  } catch (int) {
  }
  CHECK(scale_low(x, 1.0).dtype() == DType::f16);
}

TEST_CASE("backward runs with precision off, whatever scope is active", "[precision]") {
  RulePolicy policy(DType::bf16);
  const PrecisionScope scope(&policy);
  const Tensor x = leaf(Tensor::from({1}, {1}));
  backward(sum(apply(LowInBackward{}, {x}).y));
  CHECK(gradient_of(x).item() == 257.0);  // bfloat16 would give 256
  CHECK(PrecisionScope::active() == &policy);
}

TEST_CASE("inputs on which precision has no say stay as they are", "[precision]") {
  RulePolicy policy(DType::bf16);
  const PrecisionScope scope(&policy);
  const Tensor x = Tensor::from({1}, {1});
  CHECK(apply(Keeper{}, {x, x}).y.dtype() == DType::bf16);
}

TEST_CASE("observers see forward and backward, inner and outer", "[precision]") {
  Log outer, inner;
  const Tensor x = leaf(Tensor::from({1, 2}, {2}));
  const ObserverScope first(outer);
  Tensor y;
  {
    const ObserverScope second(inner);
    y = sum(scale(x, 2.0));
  }
  CHECK(inner.lines == outer.lines);
  CHECK(std::ranges::count(inner.lines, "test_scale: f32[2] to f32[2]") == 1);
  backward(y);
  CHECK(std::ranges::count(outer.lines, "test_scale backward: f32[2]") == 1);
  CHECK(std::ranges::count(inner.lines, "test_scale backward: f32[2]") == 0);
}
