// Every loss and option against PyTorch's values and gradients (tests/golden/losses.py), gradient checks of
// first and second order, dtypes, and errors.
#include "autograd/ops/loss.h"

#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <map>

#include "autograd/engine.h"
#include "autograd/grad_check.h"
#include "autograd/leaf.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "tests/golden/losses.h"
#include "tests/support/errors.h"
#include "tests/support/policy.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;
using namespace tandem::test;

namespace {

using LossFunction = std::function<Tensor(const Tensor& x, const Tensor& target)>;

struct NamedLoss {
  std::vector<double> x, target;  // empty: classes
  Shape shape;
  LossFunction function;
};

Tensor classes() { return tensor_of({golden::kTarget.begin(), golden::kTarget.end()}, {4}, DType::i64); }

std::map<std::string, CrossEntropyLossOptions> class_options(Reduce reduce) {
  const Tensor weights = tensor_of(golden::kWeights, {5}, DType::f64);
  return {{"plain", {.reduce = reduce}},
          {"weights", {.class_weights = weights, .reduce = reduce}},
          {"smoothing", {.label_smoothing = 0.1, .reduce = reduce}},
          {"ignore", {.ignore_index = 1, .reduce = reduce}},
          {"everything",
           {.label_smoothing = 0.2, .ignore_index = 0, .class_weights = weights, .reduce = reduce}}};
}

// The functions that the golden file names.
std::map<std::string, NamedLoss> named_losses() {
  using golden::kLogits, golden::kSoft, golden::kX, golden::kY, golden::kUnit, golden::kProbability;
  std::map<std::string, NamedLoss> result;
  const Shape rows{4, 5}, plain{3, 4};
  for (const auto& [how, reduce] :
       std::map<std::string, Reduce>{{"none", Reduce::none}, {"mean", Reduce::mean}, {"sum", Reduce::sum}}) {
    const Reduce r = reduce;
    for (const auto& [name, options] : class_options(r)) {
      const CrossEntropyLossOptions o = options;
      const std::string suffix = " " + name + " " + how;
      result["cross_entropy" + suffix] = {
          kLogits, {}, rows, [o](const Tensor& x, const Tensor& t) { return cross_entropy(x, t, o); }};
      if (o.label_smoothing == 0.0)
        result["nll_loss" + suffix] = {
            kLogits, {}, rows, [o](const Tensor& x, const Tensor& t) { return nll_loss(x, t, o); }};
      if (!o.ignore_index)
        result["soft_cross_entropy" + suffix] = {
            kLogits, kSoft, rows, [o](const Tensor& x, const Tensor& t) { return cross_entropy(x, t, o); }};
    }
    result["mse_loss " + how] = {kX, kY, plain,
                                 [r](const Tensor& x, const Tensor& t) { return mse_loss(x, t, r); }};
    result["l1_loss " + how] = {kX, kY, plain,
                                [r](const Tensor& x, const Tensor& t) { return l1_loss(x, t, r); }};
    for (const auto& [name, beta] : std::map<std::string, double>{{"1.0", 1.0}, {"0.4", 0.4}, {"0.0", 0.0}}) {
      result["smooth_l1_loss " + name + " " + how] = {
          kX, kY, plain,
          [r, b = beta](const Tensor& x, const Tensor& t) { return smooth_l1_loss(x, t, b, r); }};
    }
    for (const auto& [name, delta] : std::map<std::string, double>{{"1.0", 1.0}, {"0.3", 0.3}}) {
      result["huber_loss " + name + " " + how] = {
          kX, kY, plain, [r, d = delta](const Tensor& x, const Tensor& t) { return huber_loss(x, t, d, r); }};
    }
    result["bce_with_logits " + how] = {
        kX, kUnit, plain, [r](const Tensor& x, const Tensor& t) { return bce_with_logits(x, t, r); }};
    result["bce_loss " + how] = {kProbability, kUnit, plain,
                                 [r](const Tensor& x, const Tensor& t) { return bce_loss(x, t, r); }};
    const std::map<std::string, std::pair<double, double>> focal{
        {"0.25 2.0", {0.25, 2.0}}, {"-1.0 1.5", {-1.0, 1.5}}, {"0.75 0.0", {0.75, 0.0}}};
    for (const auto& [name, constants] : focal) {
      result["focal_loss " + name + " " + how] = {kX, kUnit, plain,
                                                  [r, c = constants](const Tensor& x, const Tensor& t) {
                                                    return focal_loss(x, t, c.first, c.second, r);
                                                  }};
    }
    result["kl_div " + how] = {kLogits, kSoft, rows,
                               [r](const Tensor& x, const Tensor& t) { return kl_div(x, t, r); }};
  }
  return result;
}

std::vector<double> tenths(Index count) {
  std::vector<double> result;
  for (Index i = 1; i <= count; ++i) result.push_back(0.1 * static_cast<double>(i));
  return result;
}

void check_close(const Tensor& actual, const std::vector<double>& expected, Tolerance tolerance) {
  REQUIRE(actual.defined());
  const auto values = actual.to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i, values[i], expected[i]);
    CHECK(close(values[i], expected[i], tolerance));
  }
}

const NamedLoss& loss_named(const std::map<std::string, NamedLoss>& losses, const std::string& name) {
  const auto found = losses.find(name);
  INFO("golden case " << name);
  REQUIRE(found != losses.end());
  return found->second;
}

Tensor target_of(const NamedLoss& loss, DType type) {
  return loss.target.empty() ? classes() : leaf(tensor_of(loss.target, loss.shape, type));
}

}  // namespace

TEST_CASE("losses and their gradients are PyTorch's", "[loss]") {
  const auto losses = named_losses();
  CHECK(losses.size() == golden::kLosses.size());
  for (const golden::Loss& golden : golden::kLosses) {
    const NamedLoss& loss = loss_named(losses, golden.name);
    for (const DType type : {DType::f64, DType::f32}) {
      CAPTURE(golden.name, name_of(type));
      // f32 inputs are rounded before the loss sees them, and a loss may be the difference of numbers of
      // size 30.
      const Tolerance tolerance = type == DType::f64 ? Tolerance{1e-10, 1e-11} : Tolerance{1e-5, 2e-5};
      const Tensor x = leaf(tensor_of(loss.x, loss.shape, type)), target = target_of(loss, type);
      const Tensor y = loss.function(x, target);
      CHECK(y.dtype() == type);
      check_close(y, golden.loss, tolerance);
      const Tensor dy = tensor_of(tenths(y.numel()), y.shape(), type);
      backward(std::span(&y, 1), std::span(&dy, 1));
      check_close(gradient_of(x), golden.dx, tolerance);
      if (!golden.dtarget.empty()) check_close(gradient_of(target), golden.dtarget, tolerance);
    }
  }
}

TEST_CASE("losses have first and second derivatives", "[loss]") {
  // Smooth points, away from the kinks of |x| and of the clamps.
  const Tensor x =
      tensor_of({0.5, -1.25, 3.0, 0.11, 0.75, 1.4, -2.2, -0.17, 1.0, -0.45, 2.25, -3.5}, {3, 4}, DType::f64);
  const Tensor y = random_tensor({3, 4}, DType::f64, 5, 0.05, 0.95);
  const Tensor p = random_tensor({3, 4}, DType::f64, 6, 0.05, 0.95);
  const Tensor t = tensor_of({3, 0, 2}, {3}, DType::i64),
               weights = tensor_of({0.5, 2.0, 1.25, 0.75}, {4}, DType::f32);
  const auto check = [&](const char* name, const DifferentiableFunction& function, const TensorList& inputs) {
    INFO(name);
    const GradCheckReport first = grad_check(function, inputs), second = grad_grad_check(function, inputs);
    INFO(to_string(first) << "; " << to_string(second));
    CHECK(first.passed);
    CHECK(second.passed);
  };
  for (const Reduce r : {Reduce::none, Reduce::mean, Reduce::sum}) {
    const CrossEntropyLossOptions all{0.2, 0, weights, r}, soft{0.2, {}, weights, r}, plain{0.0, {}, {}, r},
        nll{0.0, 0, weights, r};
    check("cross_entropy", [&](const TensorList& in) { return cross_entropy(in[0], t, plain); }, {x});
    check("cross_entropy, all options", [&](const TensorList& in) { return cross_entropy(in[0], t, all); },
          {x});
    check("soft cross_entropy", [&](const TensorList& in) { return cross_entropy(in[0], in[1], soft); },
          {x, y});
    check("nll_loss", [&](const TensorList& in) { return square(nll_loss(in[0], t, nll)); }, {x});
    check("mse_loss", [&](const TensorList& in) { return mse_loss(in[0], in[1], r); }, {x, y});
    check("l1_loss", [&](const TensorList& in) { return square(l1_loss(in[0], in[1], r)); }, {x, y});
    check("smooth_l1_loss", [&](const TensorList& in) { return smooth_l1_loss(in[0], in[1], 0.8, r); },
          {x, y});
    check("huber_loss", [&](const TensorList& in) { return huber_loss(in[0], in[1], 0.8, r); }, {x, y});
    check("bce_with_logits", [&](const TensorList& in) { return bce_with_logits(in[0], in[1], r); }, {x, y});
    check("bce_loss", [&](const TensorList& in) { return bce_loss(in[0], in[1], r); }, {p, y});
    check("kl_div", [&](const TensorList& in) { return kl_div(in[0], in[1], r); }, {x, y});
    check("focal_loss", [&](const TensorList& in) { return focal_loss(in[0], in[1], 0.25, 2.0, r); }, {x, y});
    check("focal_loss, unbalanced",
          [&](const TensorList& in) { return focal_loss(in[0], in[1], -1.0, 1.5, r); }, {x, y});
    check("focal_loss, gamma 0", [&](const TensorList& in) { return focal_loss(in[0], in[1], 0.75, 0.0, r); },
          {x, y});
  }
}

TEST_CASE("16-bit inputs give an f32 loss and gradients of their own type", "[loss]") {
  const auto losses = named_losses();
  for (const DType type : {DType::f16, DType::bf16}) {
    for (const golden::Loss& golden : golden::kLosses) {
      if (golden.name.find("mean") == std::string::npos || golden.name.starts_with("bce_loss")) continue;
      CAPTURE(golden.name, name_of(type));
      const NamedLoss& loss = loss_named(losses, golden.name);
      const Tensor low = tensor_of(loss.x, loss.shape, type);
      const Tensor x = leaf(low), exact = leaf(cast(low, DType::f32));
      const Tensor target = loss.target.empty() ? classes() : tensor_of(loss.target, loss.shape, DType::f32);
      RulePolicy policy(type);
      for (PrecisionPolicy* active :
           {static_cast<PrecisionPolicy*>(nullptr), static_cast<PrecisionPolicy*>(&policy)}) {
        const PrecisionScope scope(active);
        clear_gradient_of(x);
        clear_gradient_of(exact);
        const Tensor y = loss.function(x, target), expected = loss.function(exact, target);
        CHECK(y.dtype() == DType::f32);
        CHECK(y.item() == expected.item());
        backward(y, 256.0);
        backward(expected, 256.0);
        CHECK(gradient_of(x).dtype() == type);
        check_close(gradient_of(x), gradient_of(exact).to_vector<double>(), tolerance_of(type));
      }
    }
  }
}

TEST_CASE("a batch without a target has loss 0 and gradient 0", "[loss]") {
  const Tensor x = leaf(tensor_of({1, 2, 3, 4, 5, 6}, {2, 3}, DType::f32)),
               t = tensor_of({-100, -100}, {2}, DType::i64);
  for (const auto& function : {cross_entropy, nll_loss}) {
    clear_gradient_of(x);
    const Tensor loss = function(x, t, {.ignore_index = -100});
    CHECK(loss.item() == 0.0);
    backward(loss);
    check_close(gradient_of(x), std::vector<double>(6, 0.0), {0, 0});
  }
}

TEST_CASE("an ignored row counts nothing, whatever stands in it", "[loss]") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = leaf(tensor_of({-inf, 0, -inf, -1, -2, -3}, {2, 3}, DType::f32)),
               t = tensor_of({-100, 1}, {2}, DType::i64);
  const Tensor loss = nll_loss(x, t, {.ignore_index = -100});
  CHECK(loss.item() == 2.0);
  backward(loss);
  check_close(gradient_of(x), {0, 0, 0, 0, -1, 0}, {0, 0});
}

TEST_CASE("classes may have any number of axes", "[loss]") {
  const Tensor x = random_tensor({2, 3, 4, 5}, DType::f32, 1),
               t = tensor_of(std::vector<double>(24, 2.0), {2, 3, 4}, DType::i32);
  CHECK(cross_entropy(x, t, {.reduce = Reduce::none}).shape() == Shape{2, 3, 4});
  CHECK(nll_loss(x, t, {.reduce = Reduce::none}).shape() == Shape{2, 3, 4});
  CHECK(cross_entropy(x, softmax(x), {.reduce = Reduce::none}).shape() == Shape{2, 3, 4});
  CHECK(cross_entropy(x.viewed({24, 5}), t.viewed({24})).item() == cross_entropy(x, t).item());
}

TEST_CASE("masks of bytes are classes, and 255 may be what is ignored", "[loss]") {
  const Tensor x = random_tensor({2, 3, 4, 5}, DType::f32, 1);
  std::vector<double> classes(24);
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = i % 7 == 0 ? 255 : static_cast<double>(i % 5);
  const Tensor mask = tensor_of(classes, {2, 3, 4}, DType::u8), wide = cast(mask, DType::i64),
               weights = tensor_of({1, 2, 0.5, 1, 3}, {5}, DType::f32);
  const auto compare = [&](Tensor (*loss)(const Tensor&, const Tensor&, const CrossEntropyLossOptions&),
                           const CrossEntropyLossOptions& options) {
    const Tensor a = leaf(x), b = leaf(x);
    const Tensor narrow = loss(a, mask, options), same = loss(b, wide, options);
    CHECK(narrow.item() == same.item());
    backward(narrow);
    backward(same);
    CHECK(gradient_of(a).to_vector<double>() == gradient_of(b).to_vector<double>());
  };
  compare(cross_entropy, {.ignore_index = 255});
  compare(cross_entropy, {.label_smoothing = 0.1, .ignore_index = 255, .class_weights = weights});
  compare(nll_loss, {.ignore_index = 255, .class_weights = weights});
  const Tensor plain = tensor_of(std::vector<double>(24, 3.0), {2, 3, 4}, DType::u8);
  CHECK(cross_entropy(x, plain, {.ignore_index = -100}).item() == cross_entropy(x, plain).item());
  CHECK(nll_loss(x, plain, {.ignore_index = -100}).item() == nll_loss(x, plain).item());
  CHECK_FAILS(UserError, cross_entropy(x, mask), "[cross_entropy] target 255 in row 0 lies outside [0,5)");
}

TEST_CASE("the Dice coefficient of a mask, plain and squared", "[loss]") {
  const Tensor logits = tensor_of({2, -1, 0.5, -3}, {4}, DType::f64),
               mask = tensor_of({1, 0, 1, 0}, {4}, DType::u8);
  CHECK(bce_with_logits(logits, cast(mask, DType::f64)).item() == Approx(0.240714).margin(5e-7));
  CHECK(1.0 - binary_dice_loss(logits, mask).item() == Approx(0.787123).margin(5e-7));
  const DiceLossOptions squared{.epsilon = 1.0, .squared = true};
  CHECK(1.0 - binary_dice_loss(logits, mask, squared).item() == Approx(0.945414).margin(5e-7));
  const Tensor truth = tensor_of({1, 0, 1, 0}, {4}, DType::boolean);
  CHECK(binary_dice_loss(logits, truth).item() == binary_dice_loss(logits, mask).item());
  // With a logit of 0 beside it, a sigmoid is a softmax, and the second class of the two is the mask's.
  const Tensor pair = concat({Tensor::zeros({4, 1}, logits.options()), reshape(logits, {4, 1})}, 1);
  const double both = dice_loss(pair, mask).item(),
               other =
                   binary_dice_loss(neg(logits), sub(tensor_of({1, 1, 1, 1}, {4}, DType::u8), mask)).item();
  CHECK(both == Approx((binary_dice_loss(logits, mask).item() + other) / 2).epsilon(1e-12));
}

TEST_CASE("classes that are nowhere count 1 to Dice, those only predicted do not", "[loss]") {
  // Of class 2 the probabilities are 0 in f32: it is neither there nor predicted.
  const Tensor x = leaf(tensor_of({200, 0, -200, 0, 200, -200}, {2, 3}, DType::f32)),
               right = tensor_of({0, 1}, {2}, DType::i64), wrong = tensor_of({0, 0}, {2}, DType::i64);
  for (const double epsilon : {1e-6, 0.0}) {
    for (const bool squared : {false, true}) {
      const DiceLossOptions options{.epsilon = epsilon, .squared = squared};
      CHECK(dice_loss(x, right, options).item() == Approx(0.0).margin(1e-6));
      // Dice of class 0 is 2/3, of class 1 0, of class 2 1.
      const Tensor loss = dice_loss(x, wrong, options);
      CHECK(loss.item() == Approx(1.0 - 5.0 / 9.0).epsilon(1e-5));
      clear_gradient_of(x);
      backward(loss);
      for (const double g : gradient_of(x).to_vector<double>()) CHECK(std::isfinite(g));
    }
  }
}

TEST_CASE("Dice sums pixels in f32, and ignores what it is told to", "[loss]") {
  const Index pixels = 70001;  // more ones than f16 counts
  const Tensor sure = Tensor::full({pixels}, 30.0, {.dtype = DType::f16}),
               all = Tensor::full({pixels}, 1.0, {.dtype = DType::u8});
  CHECK(binary_dice_loss(sure, all).item() == Approx(0.0).margin(1e-6));
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = leaf(tensor_of({1, 2, inf, -inf, 0.5, 0}, {3, 2}, DType::f32)),
               ignoring = tensor_of({0, 255, 1}, {3}, DType::u8), rest = tensor_of({0, 1}, {2}, DType::u8);
  const Tensor loss = dice_loss(x, ignoring, {.ignore_index = 255});
  CHECK(loss.item() == dice_loss(tensor_of({1, 2, 0.5, 0}, {2, 2}, DType::f32), rest).item());
  backward(loss);
  const std::vector<double> g = gradient_of(x).to_vector<double>();
  CHECK(g[2] == 0.0);
  CHECK(g[3] == 0.0);
  CHECK(g[0] != 0.0);
}

TEST_CASE("losses refuse what they cannot mean", "[loss]") {
  const Tensor x = random_tensor({3, 4}), t = tensor_of({0, 4, 1}, {3}, DType::i64),
               good = tensor_of({0, 3, 1}, {3}, DType::i64);
  CHECK_FAILS(UserError, cross_entropy(x, t), "[cross_entropy] target 4 in row 1 lies outside [0,4)");
  CHECK_FAILS(UserError, nll_loss(x, tensor_of({0, 1, -1}, {3}, DType::i32)),
              "[nll_loss] target -1 in row 2 lies outside [0,4)");
  CHECK_FAILS(UserError, cross_entropy(x, tensor_of({0, 1}, {2}, DType::i64)), "one class per row");
  CHECK_FAILS(UserError, cross_entropy(x, random_tensor({3, 3})), "as many probabilities");
  CHECK_FAILS(UserError, cross_entropy(x, x, {.ignore_index = 3}),
              "ignore_index 3 has no meaning for probabilities");
  CHECK_FAILS(UserError, cross_entropy(good, good), "[cross_entropy]");
  CHECK_FAILS(UserError, cross_entropy(x, good, {.label_smoothing = 1.5}),
              "label smoothing 1.5 lies outside [0,1)");
  CHECK_FAILS(UserError, cross_entropy(x, good, {.class_weights = random_tensor({3})}),
              "class weights must be floating [4]");
  CHECK_FAILS(UserError, nll_loss(x, good, {.label_smoothing = 0.1}), "[nll_loss]");
  CHECK_FAILS(UserError, mse_loss(x, random_tensor({4, 3})),
              "[mse_loss] the target must have the shape of f32[3,4], got f32[4,3]");
  CHECK_FAILS(UserError, l1_loss(good, good), "[l1_loss] expects a floating tensor");
  CHECK_FAILS(UserError, smooth_l1_loss(x, x, -1.0), "[smooth_l1_loss] beta -1 is negative");
  CHECK_FAILS(UserError, huber_loss(x, x, 0.0), "[huber_loss] delta 0 is not positive");
  CHECK_FAILS(UserError, focal_loss(x, x, 0.25, -1.0), "[focal_loss] gamma -1 is negative");
  RulePolicy policy(DType::f16);
  const PrecisionScope scope(&policy);
  CHECK_FAILS(UserError, bce_loss(x, x), "[bce_loss]");
}
