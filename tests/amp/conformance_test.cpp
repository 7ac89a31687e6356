// Behaviour that users of other frameworks' autocast rely on, beyond the cast rules (autocast_test.cpp):
// explicit types, the tape, types in backward, copies across grad modes, and recomputed forward passes.
#include <catch2/catch.hpp>
#include <map>
#include <thread>

#include "amp/autocast.h"
#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/softmax.h"
#include "core/allocator.h"
#include "models/resnet.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

using amp::Autocast;
using amp::Precision;

const DType kHalves[] = {DType::f16, DType::bf16};

Precision lowered(DType dtype) { return {.level = amp::Level::O1, .dtype = dtype}; }

std::vector<float> values(const Tensor& x) { return x.to_vector<float>(); }

}  // namespace

TEST_CASE("a region that is switched off inside another ends with an exception", "[conformance]") {
  const Tensor x = random_tensor({2, 4}), w = random_tensor({3, 4});
  for (const DType dtype : kHalves) {
    const Autocast region(lowered(dtype));
    try {
      const Autocast off = Autocast::off();
      CHECK(linear(x, w, {}).dtype() == DType::f32);
      linear(x, random_tensor({3, 5}), {});  // extents do not match
      FAIL("linear did not throw");
    } catch (const UserError&) {
    }
    CHECK(linear(x, w, {}).dtype() == dtype);
    // An op that fails after its inputs were cast leaves nothing behind either.
    CHECK_THROWS_AS(linear(x, random_tensor({3, 5}), {}), UserError);
    CHECK(linear(x, w, {}).dtype() == dtype);
  }
}

TEST_CASE("an explicit type is respected", "[conformance]") {
  const Tensor x = random_tensor({4, 8}), w = random_tensor({6, 8});
  for (const DType dtype : kHalves) {
    const DType other = dtype == DType::f16 ? DType::bf16 : DType::f16;
    const Autocast region(lowered(dtype));
    const Tensor y = linear(x, w, {});
    for (const DType wanted : {DType::f64, DType::f32, other}) {
      CHECK(cast(y, wanted).dtype() == wanted);
      CHECK(relu(cast(y, wanted)).dtype() == wanted);
    }
    const Tensor index = Tensor::from(std::vector<std::int64_t>{0, 2}, {2});
    for (const DType wanted : {DType::f64, DType::f32, other})
      CHECK(one_hot(index, 3, wanted).dtype() == wanted);
    // Tensors that are made in a region have the type that was asked for.
    CHECK(Tensor::zeros({2}).dtype() == DType::f32);
    CHECK(Tensor::zeros({2}, {.dtype = other}).dtype() == other);
  }
}

TEST_CASE("mixed inputs: lower gives the lower type, widest the wider", "[conformance]") {
  for (const DType dtype : kHalves) {
    const DType other = dtype == DType::f16 ? DType::bf16 : DType::f16;
    const Tensor wide = random_tensor({4, 4}), low = cast(wide, dtype), foreign = cast(wide, other);
    const Autocast region(lowered(dtype));
    for (const Tensor& a : {wide, low, foreign}) {
      for (const Tensor& b : {wide, low, foreign}) {
        CHECK(matmul(a, b).dtype() == dtype);
        CHECK(add(a, b).dtype() == promote(a.dtype(), b.dtype()));
      }
    }
  }
}

TEST_CASE("the tape of a lowered op is 16-bit", "[conformance]") {
  // Writing in place to a tensor that is saved makes backward refuse: so it shows what is saved.
  const auto refuses = [](bool region, bool write_low) {
    const Tensor x = leaf(random_tensor({4, 8})), w = leaf(random_tensor({6, 8}));
    Tensor source = mul(x, 2.0), y, z;
    {
      const Autocast autocast(region ? lowered(DType::f16) : Precision::fp32());
      y = linear(source, w, {});
      z = relu(y);
    }
    (write_low ? z : source).storage()->bump_version();
    try {
      backward(sum(cast(z, DType::f32)));
    } catch (const UserError&) {
      return true;
    }
    return false;
  };
  CHECK(refuses(false, false));       // in f32 linear keeps its input itself,
  CHECK_FALSE(refuses(true, false));  // in 16 bits the copy that was cast
  CHECK(refuses(true, true));         // relu keeps its 16-bit result
}

TEST_CASE("the activations that wait for backward take half the memory", "[conformance]") {
  const auto waiting = [](const Precision& precision) {
    const RandomScope random(3, 0, 0);
    const auto model = models::resnet(8, {.in_channels = 1, .num_classes = 10});
    const Tensor images = random_tensor({16, 16, 16, 1});
    const Autocast autocast(precision);
    (*model)(images);  // working copies exist from here on
    const std::size_t before = host_allocator().figures().live;
    const Tensor y = (*model)(images);
    return static_cast<double>(host_allocator().figures().live - before);
  };
  const double wide = waiting(Precision::fp32());
  for (const DType dtype : kHalves) {
    const double share = waiting(lowered(dtype)) / wide;
    CAPTURE(name_of(dtype), share);
    CHECK(share < 0.6);  // masks and statistics stay as they are
    CHECK(share > 0.4);
  }
}

TEST_CASE("every gradient in backward has the type that its tensor had in forward", "[conformance]") {
  struct Types final : OpObserver {
    std::map<std::string, std::vector<DType>> forward, backward;
    void after_forward(const OpInfo& info, std::span<const Tensor>, std::span<const Tensor> out) override {
      if (recording) forward[info.name].push_back(out[0].dtype());
    }
    void before_backward(const Node& node, std::span<const Tensor> dy) override {
      if (dy[0].defined()) backward[node.info().name].push_back(dy[0].dtype());
    }
    bool recording = true;
  };
  for (const DType dtype : kHalves) {
    const RandomScope random(3, 0, 0);
    const auto model = models::resnet(8, {.in_channels = 1, .num_classes = 10});
    Types types;
    const ObserverScope observed(types);
    Tensor loss;
    {
      const Autocast autocast(lowered(dtype));
      loss = cross_entropy((*model)(random_tensor({4, 12, 12, 1})),
                           Tensor::from(std::vector<std::int64_t>{1, 3, 5, 9}, {4}));
    }
    types.recording = false;
    {
      const Autocast another(lowered(dtype == DType::f16 ? DType::bf16 : DType::f16));
      backward(loss);  // runs without any region, whatever is active
    }
    for (const char* op : {"conv2d", "batch_norm_train", "global_avg_pool2d", "linear", "cross_entropy"}) {
      INFO(op);
      auto seen = types.backward[op];
      std::ranges::reverse(seen);
      CHECK_FALSE(seen.empty());
      CHECK(seen == types.forward[op]);
      CHECK(seen.front() == (std::string(op) == "cross_entropy" ? DType::f32 : dtype));
    }
    for (const Parameter& parameter : model->parameters()) {
      INFO(parameter.name());
      CHECK(parameter.gradient().dtype() == DType::f32);
    }
  }
}

TEST_CASE("only f32 parameters have copies; views, results and other types are cast anew", "[conformance]") {
  const Parameter w(random_tensor({6, 8}));
  CHECK(working_copy(w, DType::f16).defined());
  CHECK_FALSE(working_copy(w.value().rows(0, 3), DType::f16).defined());
  CHECK_FALSE(working_copy(leaf(random_tensor({6, 8})), DType::f16).defined());
  CHECK_FALSE(working_copy(mul(w, 1.0), DType::f16).defined());
  // A parameter that is used in both types has a copy of each.
  for (int use = 0; use < 2; ++use) {
    for (const DType dtype : kHalves) {
      CHECK(working_copy(w, dtype).dtype() == dtype);
      CHECK(values(working_copy(w, dtype)) == values(cast(w.value(), dtype)));
    }
  }
  // A flat buffer that begins with the parameter is not the parameter.
  const Tensor buffer = random_tensor({100}), gradients = Tensor::zeros({100});
  const Parameter first(random_tensor({6, 8}));
  Parameter(first).move_into(buffer.rows(0, 48), gradients.rows(0, 48));
  CHECK(working_copy(first, DType::f16).defined());
  CHECK_FALSE(working_copy(buffer, DType::f16).defined());
  CHECK_FALSE(working_copy(buffer.rows(0, 20), DType::f16).defined());
  // A result is no leaf, and its two casts are two: the gradient of each use arrives.
  const Tensor x = random_tensor({4, 8});
  const auto gradient_of_uses = [&](int uses) {
    const Autocast region(lowered(DType::f16));
    const Tensor scaled = mul(w, 2.0);
    Tensor total = linear(x, scaled, {});
    for (int use = 1; use < uses; ++use) total = add(total, linear(x, scaled, {}));
    clear_gradient_of(w);
    backward(sum(total));
    return values(w.gradient());
  };
  const std::vector<float> once = gradient_of_uses(1), twice = gradient_of_uses(2);
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == 2.0f * once[i]);
}

TEST_CASE("a copy made without a tape carries gradients with one, and the other way round", "[conformance]") {
  for (const bool tape_first : {false, true}) {
    const Parameter w(random_tensor({6, 8}));
    const Tensor x = random_tensor({4, 8});
    const Autocast region(lowered(DType::bf16));
    for (const bool taped : {tape_first, !tape_first, tape_first}) {
      const GradMode mode(taped);
      const Tensor y = linear(x, w, {});
      CHECK(y.dtype() == DType::bf16);
      CHECK(y.requires_grad() == taped);
      if (!taped) continue;
      clear_gradient_of(w);
      backward(sum(cast(y, DType::f32)));
      CHECK(w.gradient().defined());
    }
  }
}

TEST_CASE("forward after an update sees the new weights", "[conformance]") {
  for (const DType dtype : kHalves) {
    for (const bool copies_in_update : {false, true}) {
      const RandomScope random(3, 0, 0);
      const auto model = models::resnet(8, {.in_channels = 1, .num_classes = 10});
      optim::Sgd sgd(model->parameters(), {.lr = 0.1});
      optim::StepOptions options;
      if (copies_in_update) options.working = dtype;
      optim::Step step(*model, {&sgd}, options);
      const Tensor images = random_tensor({4, 12, 12, 1});
      const auto loss = [&] {
        const Autocast region(lowered(dtype));
        return cross_entropy((*model)(images), Tensor::from(std::vector<std::int64_t>{1, 3, 5, 9}, {4}));
      };
      const Tensor first = loss();
      step.backward(first);
      step.apply();
      const double second = loss().item();
      step.clear();
      CHECK(second != first.item());
      for (const Parameter& parameter : model->parameters())
        CHECK(values(working_copy(parameter, dtype)) == values(cast(parameter.value(), dtype)));
    }
  }
}

TEST_CASE("a forward pass run again is the same one, wherever it runs", "[conformance]") {
  // As recomputation in backward needs it: the region that is opened again brings back its type and its
  // lists, not just whether one was open.
  const Tensor x = random_tensor({4, 8}), w = random_tensor({6, 8});
  for (const DType dtype : kHalves) {
    Precision precision = lowered(dtype);
    precision.lists.infer = {"softmax"};
    const amp::ResolvedPrecision plan(precision);
    const auto forward = [&] {
      const Autocast region(plan);
      return softmax(linear(x, w, {}), 1);
    };
    const Tensor expected = forward();
    CHECK(expected.dtype() == dtype);
    const auto check = [&](const Tensor& again) {
      CHECK(again.dtype() == dtype);
      CHECK(values(again) == values(expected));
    };
    {
      const Autocast another(lowered(dtype == DType::f16 ? DType::bf16 : DType::f16));
      check(forward());
      const Autocast off = Autocast::off();
      check(forward());
    }
    Tensor elsewhere;
    std::thread([&] { elsewhere = forward(); }).join();
    check(elsewhere);
  }
}
