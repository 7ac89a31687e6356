// Recording on the tape, and errors of a recorded graph.
#include <catch2/catch.hpp>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "tests/autograd/test_ops.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor number(double value, DType dtype = DType::f64) { return Tensor::scalar(value, {.dtype = dtype}); }

}  // namespace

TEST_CASE("ops are recorded only where an input wants a gradient", "[tape]") {
  const Tensor constant = number(2), x = leaf(number(3));
  CHECK_FALSE(constant.requires_grad());
  CHECK(x.requires_grad());
  CHECK_FALSE(mul(constant, constant).requires_grad());
  CHECK(mul(constant, x).requires_grad());
  CHECK(mul(mul(constant, x), constant).requires_grad());
}

TEST_CASE("a leaf shares its values and is floating", "[tape]") {
  const Tensor value = Tensor::from({1, 2}, {2});
  CHECK(leaf(value).is_same(value));
  CHECK_FALSE(value.requires_grad());
  CHECK_FAILS(UserError, leaf(Tensor::zeros({2}, {.dtype = DType::i64})),
              "[leaf] only floating tensors have gradients, got i64[2]");
  CHECK_FAILS(UserError, leaf(Tensor{}), "got absent");
}

TEST_CASE("no tape under NoGrad, and GradMode nests", "[tape]") {
  const Tensor x = leaf(number(3));
  {
    const NoGrad off;
    CHECK_FALSE(GradMode::enabled());
    CHECK_FALSE(mul(x, x).requires_grad());
    {
      const GradMode on(true);
      CHECK(mul(x, x).requires_grad());
    }
    CHECK_FALSE(mul(x, x).requires_grad());
  }
  CHECK(mul(x, x).requires_grad());
}

TEST_CASE("an exception restores the modes", "[tape]") {
  try {
    const NoGrad off;
    const HigherOrder on;
    throw 1;
  } catch (int) {
  }
  CHECK(GradMode::enabled());
  CHECK_FALSE(HigherOrder::active());
}

TEST_CASE("detach and the untaped views cut the tape", "[tape]") {
  const Tensor x = leaf(Tensor::from({1, 2, 3, 4}, {4}));
  const Tensor y = mul(x, x);
  CHECK_FALSE(y.detach().requires_grad());
  CHECK_FALSE(y.viewed({2, 2}).requires_grad());
  CHECK_FALSE(y.rows(0, 2).requires_grad());
  CHECK_FALSE(y.clone().requires_grad());
  CHECK_FALSE(mul(y.detach(), 2.0).requires_grad());
  backward(sum(mul(x, mul(x, x).detach())));  // the detached factor counts as a constant
  CHECK(gradient_of(x).to_vector<double>() == std::vector<double>{1, 4, 9, 16});
}

TEST_CASE("results of integral dtype carry no gradient", "[tape]") {
  const Tensor x = leaf(Tensor::from({1, 2}, {2}));
  CHECK_FALSE(greater(x, x).requires_grad());
  CHECK_FALSE(cast(x, DType::i32).requires_grad());
}

TEST_CASE("backward refuses what is no recorded scalar loss", "[tape]") {
  const Tensor x = leaf(Tensor::from({1, 2}, {2}));
  CHECK_FAILS(UserError, backward(x), "[backward] the loss must be one f32 (or f64) number, got f32[2]");
  CHECK_FAILS(UserError, backward(Tensor{}), "got absent");
  CHECK_FAILS(UserError, backward(cast(sum(x), DType::f16)), "got f16[]");
  CHECK_FAILS(UserError, backward(cast(sum(x), DType::bf16)), "got bf16[]");
  CHECK_FAILS(UserError, backward(number(1)), "was not recorded");
  {
    const NoGrad off;
    CHECK_FAILS(UserError, backward(sum(x)), "NoGrad");
  }
  CHECK_FALSE(gradient_of(x).defined());
}

TEST_CASE("output gradients must fit their outputs", "[tape]") {
  const Tensor x = leaf(Tensor::from({1, 2}, {2}));
  const Tensor y = mul(x, 2.0);
  const auto run = [&](const TensorList& seeds) { backward(std::span(&y, 1), seeds); };
  CHECK_FAILS(UserError, run({}), "1 outputs need as many output gradients, got 0");
  CHECK_FAILS(UserError, run({Tensor::zeros({3})}), "output 0 is f32[2], its gradient is f32[3]");
  CHECK_FAILS(UserError, run({Tensor{}}), "its gradient is absent");
  CHECK_FAILS(UserError, run({Tensor::zeros({2}, {.dtype = DType::i32})}), "its gradient is i32[2]");
  CHECK_NOTHROW(run({Tensor::from({3, 4}, {2})}));
  CHECK(gradient_of(x).to_vector<double>() == std::vector<double>{6, 8});
}

TEST_CASE("taped output gradients leave no tape on the result without create_graph", "[tape]") {
  const Tensor x = leaf(Tensor::from({1, 2}, {2})), v = leaf(Tensor::from({3, 4}, {2}));
  const Tensor y = add(x, 1.0);
  CHECK_FALSE(gradients(std::span(&y, 1), std::span(&v, 1), std::span(&x, 1), {.retain_graph = true})[0]
                  .requires_grad());
  backward(std::span(&y, 1), std::span(&v, 1));
  CHECK_FALSE(gradient_of(x).requires_grad());
  CHECK(gradient_of(x).to_vector<double>() == std::vector<double>{3, 4});
}

TEST_CASE("a graph runs backward once unless it is retained", "[tape]") {
  const Tensor x = leaf(number(3));
  const Tensor y = mul(x, x);
  backward(y, 1.0, {.retain_graph = true});
  CHECK(gradient_of(x).item() == 6.0);
  backward(y);
  CHECK(gradient_of(x).item() == 12.0);
  CHECK_FAILS(UserError, backward(y), "[mul] this graph was freed by an earlier backward; pass retain_graph");
  CHECK(gradient_of(x).item() == 12.0);
}

TEST_CASE("backward frees what nodes saved as it goes", "[tape]") {
  const Tensor x = leaf(Tensor::full({1 << 16}, 1.5));
  Tensor loss;
  Ref<Storage> saved;
  {
    const Tensor y = exp(x);  // saves its own output
    saved = y.storage();
    loss = sum(y);
  }
  CHECK(saved->use_count() > 1);
  backward(loss);
  CHECK(saved->use_count() == 1);
}

TEST_CASE("a node that saves its own output makes no cycle", "[tape]") {
  Ref<Storage> saved;
  {
    const Tensor y = exp(leaf(Tensor::full({8}, 1.5)));
    saved = y.storage();
  }
  CHECK(saved->use_count() == 1);
}

TEST_CASE("a saved tensor that was written in place is an error", "[tape]") {
  const Tensor x = leaf(number(3));
  const Tensor y = mul(x, x);
  x.storage()->bump_version();
  CHECK_FAILS(UserError, backward(y),
              "[mul] f64[] saved for backward was written in place since (version 0 then, 1 now)");
  CHECK_FALSE(gradient_of(x).defined());
  const Tensor z = mul(x, x);  // recorded after the write: fine
  CHECK_NOTHROW(backward(z));
}

TEST_CASE("gradients accumulate into leaves over two backwards", "[tape]") {
  const Tensor x = leaf(Tensor::from({1, 2}, {2}));
  backward(sum(mul(x, 3.0)));
  const Tensor first = gradient_of(x);
  backward(sum(mul(x, x)));
  CHECK(gradient_of(x).to_vector<double>() == std::vector<double>{5, 7});
  CHECK(first.to_vector<double>() == std::vector<double>{3, 3});  // what somebody holds does not change
  clear_gradient_of(x);
  CHECK_FALSE(gradient_of(x).defined());
  backward(sum(x), 4.0);  // the seed is the loss scale
  CHECK(gradient_of(x).to_vector<double>() == std::vector<double>{4, 4});
}

TEST_CASE("only leaves keep gradients", "[tape]") {
  const Tensor x = leaf(number(3));
  CHECK_FAILS(UserError, gradient_of(mul(x, x)), "f64[] is not a leaf");
  CHECK_FAILS(UserError, gradient_of(number(1)), "is not a leaf");
  CHECK_FAILS(UserError, clear_gradient_of(mul(x, x)), "is not a leaf");
}

TEST_CASE("a leaf refuses a gradient of another shape", "[tape]") {
  Leaf node(Tensor::zeros({2, 3}));
  CHECK_FAILS(UserError, node.accumulate(Tensor::zeros({3, 2}), false),
              "[leaf] a gradient of f32[3,2] on cpu does not fit a leaf of f32[2,3] on cpu");
}

TEST_CASE("an op whose backward gives a wrong shape is an internal error naming it", "[tape]") {
  const Tensor x = leaf(Tensor::from({1, 2}, {2}));
  CHECK_FAILS(InternalError, backward(sum(apply(WrongShape{}, {x}).y)),
              "[test_wrong_shape] backward produced f32[17] on cpu for an input of f32[2] on cpu");
}

TEST_CASE("gradients have the dtype of their leaf", "[tape]") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor x = leaf(random_tensor({5}, dtype));
    backward(sum(cast(mul(x, 2.0), DType::f32)));
    CHECK(gradient_of(x).dtype() == dtype);
    CHECK(gradient_of(x).to_vector<double>() == std::vector<double>(5, 2.0));
  }
}

TEST_CASE("a dimension of inputs that need no gradient gets none", "[tape]") {
  const Tensor x = leaf(Tensor::from({2, 3}, {2})), c = Tensor::from({5, 7}, {2});
  backward(sum(mul(x, c)));
  CHECK(gradient_of(x).to_vector<double>() == std::vector<double>{5, 7});
}

TEST_CASE("several outputs: only those that were used have a gradient", "[tape]") {
  const Tensor x = leaf(Tensor::from({1, 2}, {2}));
  int present = -1;
  backward(sum(apply(TwoOutputs{&present}, {x}).twice));
  CHECK(present == 2);
  CHECK(gradient_of(x).to_vector<double>() == std::vector<double>{2, 2});
  clear_gradient_of(x);
  backward(sum(apply(TwoOutputs{&present}, {x}).plus));
  CHECK(present == 1);
  clear_gradient_of(x);
  const auto both = apply(TwoOutputs{&present}, {x});
  backward(sum(mul(both.plus, both.twice)));  // d/dx (x+1)·2x = 4x+2
  CHECK(present == 3);
  CHECK(gradient_of(x).to_vector<double>() == std::vector<double>{6, 10});
}

TEST_CASE("an op without a defined input names itself", "[tape]") {
  CHECK_FAILS(UserError, apply(Scale<>{2.0}, {Tensor{}}), "[test_scale] at least one input must be given");
}
