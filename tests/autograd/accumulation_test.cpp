// Accumulation of gradients: sums and rounding, output buffers, flat buffers, and notification of leaves.
#include <algorithm>
#include <catch2/catch.hpp>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "tests/autograd/test_ops.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;
using Doubles = std::vector<double>;

namespace {

// A parameter [2] = {2, 3} at elements 1 and 2 of flat buffers of four.
struct FlatParameter {
  Parameter parameter{Tensor::from({2, 3}, {2})};
  Tensor values = Tensor::zeros({4}), gradient = Tensor::full({4}, 99.0);

  FlatParameter() { parameter.move_into(values.rows(1, 2), gradient.rows(1, 2)); }
};

Tensor sinking_product(const Tensor& a, const Tensor& b, int* offered = nullptr, int* accumulated = nullptr) {
  return apply(SinkingProduct{offered, accumulated}, {a, b}).y;
}

}  // namespace

TEST_CASE("16-bit gradients that meet are summed in f32 and rounded once", "[accumulation]") {
  // Summed in bf16 one after the other, 256 + 1 + 1 would stay 256.
  Doubles contributions{256, 1, 1};
  std::sort(contributions.begin(), contributions.end());
  do {
    const Tensor x = leaf(Tensor::from({1}, {1}));
    const Tensor low = cast(x, DType::bf16);
    Tensor total = Tensor::zeros({});
    for (const double factor : contributions)
      total = add(total, sum(cast(mul(low, tensor_of({factor}, {1}, DType::bf16)), DType::f32)));
    backward(total);
    CHECK(gradient_of(x).dtype() == DType::f32);
    CHECK(gradient_of(x).item() == 258.0);
  } while (std::next_permutation(contributions.begin(), contributions.end()));
}

TEST_CASE("the gradient of a 16-bit tensor is rounded to its dtype", "[accumulation]") {
  const Tensor x = leaf(Tensor::from({1}, {1}));
  const Tensor low = cast(x, DType::bf16);
  const Tensor y =
      add(mul(low, tensor_of({256}, {1}, DType::bf16)), mul(low, tensor_of({1}, {1}, DType::bf16)));
  const Tensor one = tensor_of({1}, {1}, DType::bf16);
  const TensorList wanted{low};
  const Tensor g = gradients(std::span(&y, 1), std::span(&one, 1), wanted)[0];
  CHECK(g.dtype() == DType::bf16);
  CHECK(g.item() == 256.0);  // 257 is a tie in bfloat16
}

TEST_CASE("many branches of one tensor", "[accumulation]") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor x = leaf(tensor_of({1, 2}, {2}, dtype));
    const Tensor y = mul(x, 1.0);
    Tensor total = Tensor::zeros({}, {.dtype = DType::f32});
    for (int i = 1; i <= 10; ++i) total = add(total, sum(cast(mul(y, static_cast<double>(i)), DType::f32)));
    backward(cast(total, DType::f32));
    CHECK(gradient_of(x).to_vector<double>() == Doubles{55, 55});
  }
}

TEST_CASE("a gradient shared by two inputs is not written over", "[accumulation]") {
  const Tensor a = leaf(Tensor::from({1, 2}, {2})), b = leaf(Tensor::from({3, 4}, {2}));
  const Tensor sum_ab = add(a, b);  // backward hands the same tensor to both
  backward(sum(add(sum_ab, mul(a, 10.0))));
  CHECK(gradient_of(a).to_vector<double>() == Doubles{11, 11});
  CHECK(gradient_of(b).to_vector<double>() == Doubles{1, 1});
  backward(sum(add(a, b)));
  CHECK(gradient_of(a).to_vector<double>() == Doubles{12, 12});
  CHECK(gradient_of(b).to_vector<double>() == Doubles{2, 2});
}

TEST_CASE("a shared gradient is no sink", "[accumulation]") {
  const Tensor a = leaf(Tensor::from({1, 2}, {2})), b = leaf(Tensor::from({3, 4}, {2}));
  const Tensor k = Tensor::from({5, 7}, {2});
  const Tensor middle_a = scale(a, 1.0), middle_b = scale(b, 1.0);
  const Tensor product =
      sinking_product(middle_a, k);  // runs backward after the sum gave both the same tensor
  backward(sum(add(product, add(middle_a, middle_b))));
  CHECK(gradient_of(a).to_vector<double>() == Doubles{6, 8});
  CHECK(gradient_of(b).to_vector<double>() == Doubles{1, 1});
}

TEST_CASE("move_into keeps the value and the shape", "[accumulation]") {
  const FlatParameter flat;
  CHECK(flat.values.to_vector<double>() == Doubles{0, 2, 3, 0});
  CHECK(flat.parameter.value().shares_storage(flat.values));
  CHECK(flat.parameter.value().shape() == Shape{2});
  CHECK_FALSE(flat.parameter.gradient().defined());
  const Parameter matrix(Tensor::from({1, 2, 3, 4}, {2, 2}));
  Parameter copy = matrix;
  copy.move_into(flat.values, flat.gradient);  // flat ranges are viewed in the parameter's shape
  CHECK(matrix.value().shape() == Shape{2, 2});
  CHECK_FAILS(UserError, copy.move_into(Tensor::zeros({3}), Tensor::zeros({3})), "[3]");
  CHECK_FAILS(InternalError, copy.move_into(Tensor::zeros({4}, {.dtype = DType::f64}), Tensor::zeros({4})),
              "f64[4]");
}

TEST_CASE("a sink receives the first contribution without adding to what it held", "[accumulation]") {
  const FlatParameter flat;
  int offered = 0, accumulated = 0;
  const Tensor x = Tensor::from({5, 7}, {2});
  backward(sum(sinking_product(flat.parameter, x, &offered, &accumulated)));
  CHECK(flat.gradient.to_vector<double>() == Doubles{99, 5, 7, 99});
  CHECK(offered == 1);
  CHECK(accumulated == 0);
  CHECK(flat.parameter.gradient().shares_storage(flat.gradient));
  // A second backward adds, in the kernel.
  backward(sum(sinking_product(flat.parameter, x, &offered, &accumulated)));
  CHECK(flat.gradient.to_vector<double>() == Doubles{99, 10, 14, 99});
  CHECK(accumulated == 1);
  // After a clear the old values do not count.
  flat.parameter.leaf().clear_gradient();
  CHECK_FALSE(flat.parameter.gradient().defined());
  backward(sum(sinking_product(flat.parameter, x)));
  CHECK(flat.gradient.to_vector<double>() == Doubles{99, 5, 7, 99});
}

TEST_CASE("an op that takes no sink reaches the flat buffer too", "[accumulation]") {
  const FlatParameter flat;
  backward(sum(scale(flat.parameter, 4.0)));
  CHECK(flat.gradient.to_vector<double>() == Doubles{99, 4, 4, 99});
  backward(sum(scale(flat.parameter, 4.0)));
  CHECK(flat.gradient.to_vector<double>() == Doubles{99, 8, 8, 99});
}

TEST_CASE("a parameter used twice, with and without sinks, in any order", "[accumulation]") {
  const Tensor x = Tensor::from({5, 7}, {2});
  for (const bool sink_first : {false, true}) {
    const FlatParameter flat;
    const Tensor with = sink_first ? Tensor{} : sinking_product(flat.parameter, x);
    const Tensor without = scale(flat.parameter, 4.0);
    const Tensor product = sink_first ? sinking_product(flat.parameter, x) : with;
    backward(sum(add(product, without)));
    CHECK(flat.gradient.to_vector<double>() == Doubles{99, 9, 11, 99});
  }
}

TEST_CASE("a parameter that is both operands of one op is offered one sink", "[accumulation]") {
  const FlatParameter flat;
  int offered = 0;
  backward(sum(sinking_product(flat.parameter, flat.parameter, &offered)));
  CHECK(offered == 1);
  CHECK(flat.gradient.to_vector<double>() == Doubles{99, 4, 6, 99});
}

TEST_CASE("intermediate gradients are added to in place", "[accumulation]") {
  const Tensor x = leaf(Tensor::from({1, 2}, {2})), k = Tensor::from({5, 7}, {2});
  const Tensor y = scale(x, 1.0);
  int offered = 0, accumulated = 0;
  Tensor total = sinking_product(y, k, &offered, &accumulated);
  total = add(total, sinking_product(y, k, &offered, &accumulated));
  backward(sum(total));
  CHECK(accumulated == 1);
  CHECK(gradient_of(x).to_vector<double>() == Doubles{10, 14});
}

TEST_CASE("gradients() and create_graph leave flat buffers alone", "[accumulation]") {
  const FlatParameter flat;
  const Tensor p = flat.parameter;
  const Tensor y = sum(mul(p, p)), one = Tensor::scalar(1);
  const Tensor g =
      gradients(std::span(&y, 1), std::span(&one, 1), std::span(&p, 1), {.create_graph = true})[0];
  CHECK(g.to_vector<double>() == Doubles{4, 6});
  CHECK(flat.gradient.to_vector<double>() == Doubles{99, 99, 99, 99});
  CHECK_FALSE(flat.parameter.gradient().defined());
}

TEST_CASE("on_ready fires once, after the last edge, with the complete gradient", "[accumulation]") {
  const FlatParameter flat;
  int fired = 0;
  Doubles seen;
  flat.parameter.leaf().on_ready = [&](Leaf& leaf) {
    ++fired;
    seen = leaf.gradient().to_vector<double>();
    CHECK_FALSE(GradMode::enabled());
  };
  const Tensor p = flat.parameter;
  const Tensor y = add(add(mul(p, 1.0), mul(p, 10.0)), mul(mul(p, 1.0), 100.0));
  backward(sum(y));
  CHECK(fired == 1);
  CHECK(seen == Doubles{111, 111});
  backward(sum(mul(flat.parameter, 1.0)));
  CHECK(fired == 2);
  CHECK(seen == Doubles{112, 112});
  const Tensor z = sum(mul(p, p)), one = Tensor::scalar(1);
  gradients(std::span(&z, 1), std::span(&one, 1), std::span(&p, 1));
  CHECK(fired == 2);
}

TEST_CASE("on_ready of a late layer fires before backward reaches the early ones", "[accumulation]") {
  struct Order final : OpObserver {
    std::vector<std::string> events;
    void before_backward(const Node& node, std::span<const Tensor>) override {
      events.emplace_back(node.info().name);
    }
  } order;
  const Parameter early(Tensor::from({2}, {1})), late(Tensor::from({3}, {1}));
  late.leaf().on_ready = [&](Leaf&) { order.events.emplace_back("late ready"); };
  early.leaf().on_ready = [&](Leaf&) { order.events.emplace_back("early ready"); };
  const Tensor x = Tensor::from({1}, {1});
  const Tensor loss = sum(sinking_product(scale(sinking_product(x, early), 1.0), late));
  const ObserverScope scope(order);
  backward(loss);
  std::erase_if(order.events,
                [](const std::string& e) { return e != "test_scale" && !e.ends_with("ready"); });
  CHECK(order.events == std::vector<std::string>{"late ready", "test_scale", "early ready"});
}

TEST_CASE("a shared parameter is announced after its last use", "[accumulation]") {
  const Parameter shared(Tensor::from({2}, {1}));
  double at_ready = 0.0;
  int fired = 0;
  shared.leaf().on_ready = [&](Leaf& leaf) { ++fired, at_ready = leaf.gradient().item(); };
  const Tensor x = leaf(Tensor::from({3}, {1}));
  const Tensor w = shared;
  backward(sum(mul(mul(x, w), w)));  // x·w²
  CHECK(fired == 1);
  CHECK(at_ready == 12.0);
  CHECK(gradient_of(x).item() == 4.0);
}

TEST_CASE("a frozen parameter collects nothing", "[accumulation]") {
  Parameter p(Tensor::from({2}, {1}));
  p.set_trainable(false);
  CHECK_FALSE(p.tensor().requires_grad());
  const Tensor x = leaf(Tensor::from({3}, {1}));
  backward(sum(mul(x, p)));
  CHECK_FALSE(p.gradient().defined());
  CHECK(gradient_of(x).item() == 2.0);
  p.set_trainable(true);
  backward(sum(mul(x, p)));
  CHECK(p.gradient().item() == 3.0);
}

TEST_CASE("parameters are handles with a name", "[accumulation]") {
  Parameter p(Tensor::from({2}, {1}), ParameterLayout::filter);
  CHECK_FALSE(Parameter{}.defined());
  Parameter same = p;
  same.set_name("conv1.weight");
  CHECK(p.name() == "conv1.weight");
  CHECK(p == same);
  CHECK_FALSE(p == Parameter(Tensor::from({2}, {1})));
  CHECK(p.layout() == ParameterLayout::filter);
  // A gradient from before is not part of the buffer.
  backward(sum(mul(p, 3.0)));
  CHECK(p.gradient().item() == 3.0);
  p.move_into(Tensor::zeros({1}), Tensor::full({1}, 7.0));
  CHECK_FALSE(p.gradient().defined());
  backward(sum(mul(p, 3.0)));
  CHECK(p.gradient().item() == 3.0);
}
