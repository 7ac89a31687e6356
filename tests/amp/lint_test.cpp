// One model per warning of the lint, which triggers only that one, and models without warnings.
#include "amp/lint.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/apply.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "tests/support/errors.h"

using namespace tandem;
using amp::LintRule;

namespace {

using Body = std::function<Tensor(const Tensor& x)>;

// y = body(x W), W a small multiple of the unit matrix.
class Probe final : public nn::Module {
 public:
  explicit Probe(Body body, double weight = 1.0) : body_(std::move(body)) {
    std::vector<float> values(64, 0.0f);
    for (std::size_t i = 0; i < 8; ++i) values[i * 9] = static_cast<float>(weight);
    weight_ = add_parameter("weight", Parameter(Tensor::from(values, {8, 8})));
  }
  Tensor forward(const Tensor& x) override { return body_(matmul(x, weight_)); }

 private:
  Body body_;
  Parameter weight_;
};

Tensor row_of(std::vector<float> values) {
  values.resize(8, 0.0f);
  return Tensor::from(values, {1, 8});
}

amp::Precision o1(DType type = DType::f16) { return {.level = amp::Level::O1, .dtype = type}; }
// Everything that can be is 16-bit.
amp::Precision all_low(DType type = DType::f16) {
  return {.level = amp::Level::O1,
          .dtype = type,
          .lists = {.allow = {"exp", "square", "reciprocal", "sum", "mean", "pow_scalar", "add", "where"}}};
}

std::vector<amp::LintLine> lines_of(nn::Module& model, const amp::Precision& precision,
                                    const std::function<Tensor()>& forward) {
  const amp::ResolvedPrecision plan(precision);
  return amp::lint(model, plan, {forward});
}

std::vector<amp::LintLine> lines_of(const Body& body, const Tensor& x, const amp::Precision& precision,
                                    double weight = 1.0) {
  Probe model(body, weight);
  return lines_of(model, precision, [&] {
    const Tensor y = model(x);
    return mse_loss(y, Tensor::zeros(y.shape()));
  });
}

// The only line.
void check_only(const std::vector<amp::LintLine>& lines, LintRule rule, const std::string& part) {
  std::string all;
  for (const auto& line : lines) all += std::string(name_of(line.rule)) + ": " + to_string(line) + "\n";
  INFO("expected " << name_of(rule) << ", " << part << "; got:\n" << all);
  REQUIRE(lines.size() == 1);
  CHECK(lines.front().rule == rule);
  CHECK_THAT(to_string(lines.front()), Catch::Contains(part));
}

// An op of a user's: adds up rows in whatever type the context asks for.
struct OwnSum {
  static constexpr OpInfo info{"own_sum", CastRule::neutral};
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context& context, Saved&, const In& in) const {
    return {Tensor::zeros({1}, {.dtype = context.dtype, .device = in.x.device()})};
  }
  In backward(const Saved&, const Out&, const Needs&) const { return {}; }
};

const Tensor kOnes = Tensor::from({1, 1, 1, 1, 1, 1, 1, 1}, {1, 8});

}  // namespace

TEST_CASE("lint: constants that FP16 has not", "[lint]") {
  const auto line = [](const Body& body, DType type = DType::f16) { return lines_of(body, kOnes, o1(type)); };
  check_only(line([](const Tensor& y) { return y * 7e4; }), LintRule::constant, "70000 is infinite in f16");
  check_only(line([](const Tensor& y) { return y + -1e9; }), LintRule::mask, "masked_softmax");
  check_only(line([](const Tensor& y) { return y + 1e-8; }), LintRule::epsilon, "1e-08 is zero in f16");
  check_only(line([](const Tensor& y) { return clamp(y, 1e-12, 1e30); }), LintRule::epsilon, "1e-12");
  check_only(line([](const Tensor& y) { return y + 1e-5; }), LintRule::subnormal, "1.0014e-05");
  for (const double fits : {65519.0, -65504.0}) {
    const auto lines = line([=](const Tensor& y) { return (y * 1e-3) + fits * 1e-3; });
    CHECK(lines.empty());
  }
  CHECK(line([](const Tensor& y) { return y + 6.2e-5; }).empty());
  CHECK(line([](const Tensor& y) { return y + 0x1p-25; }).size() == 1);
  // BF16 has the range of f32.
  for (const double value : {7e4, -1e9, 1e-8, 1e-5}) {
    CHECK(line([=](const Tensor& y) { return y + value; }, DType::bf16).empty());
  }
  // An op that runs in f32 may have any.
  Probe model([](const Tensor& y) { return softmax(cast(y, DType::f32) + -1e9); });
  CHECK(lines_of(model, o1(), [&] { return mean(model(kOnes)); }).empty());
}

TEST_CASE("lint: masks that are tensors", "[lint]") {
  const Tensor mask = Tensor::full({1, 8}, -1e9);
  const auto masked = [&](const Tensor& y) { return softmax(add(y, mask)); };
  // The sum with an f32 tensor is f32 at level O1, and the softmax reads it so.
  CHECK(lines_of(masked, kOnes, o1()).empty());
  check_only(lines_of(masked, kOnes, all_low()), LintRule::mask, "-1e+09, infinite in f16");
  CHECK(lines_of([](const Tensor& y) { return masked_softmax(y); }, kOnes, o1()).empty());
}

TEST_CASE("lint: ranges of exp, square and reciprocal", "[lint]") {
  const auto exp_of = [](const Tensor& y) { return exp(y); };
  check_only(lines_of(exp_of, row_of({11.2f}), all_low()), LintRule::exponential, "above 11.09");
  check_only(lines_of(exp_of, row_of({-17.4f}), all_low()), LintRule::exponential, "below -17.33");
  CHECK(lines_of(exp_of, row_of({6.0f, -17.25f}), all_low()).empty());
  CHECK(lines_of(exp_of, row_of({11.2f}), o1()).empty());  // in f32
  check_only(lines_of(exp_of, row_of({89.0f}), all_low(DType::bf16)), LintRule::exponential, "bf16");
  CHECK(lines_of(exp_of, row_of({80.0f}), all_low(DType::bf16)).empty());

  const auto square_of = [](const Tensor& y) { return square(y); };
  check_only(lines_of(square_of, row_of({256.0f}), all_low()), LintRule::square, "from 255.97 on");
  check_only(lines_of([](const Tensor& y) { return pow(y, 3.0); }, row_of({41.0f}), all_low()),
             LintRule::square, "infinite in f16");
  check_only(lines_of([](const Tensor& y) { return mul(y, y); }, row_of({256.0f}), o1()), LintRule::square,
             "255.97");
  CHECK(lines_of(square_of, row_of({22.0f}), all_low()).empty());

  const auto inverse = [](const Tensor& y) { return reciprocal(y); };
  const Tensor tiny = Tensor::full({1, 8}, 1.5e-5), small = Tensor::full({1, 8}, 0.01);
  check_only(lines_of(inverse, tiny, all_low()), LintRule::reciprocal, "above 1.53e-05");
  CHECK(lines_of(inverse, small, all_low()).empty());
  check_only(lines_of([](const Tensor& y) { return div(kOnes, y); }, tiny, all_low(DType::f16)).empty()
                 ? lines_of([](const Tensor& y) { return div(cast(kOnes, DType::f16), y); }, tiny, o1())
                 : lines_of([](const Tensor& y) { return div(kOnes, y); }, tiny, all_low()),
             LintRule::reciprocal, "divisor");
}

TEST_CASE("lint: logarithms of what is 1 in 16 bits, and of rounded sums", "[lint]") {
  const auto gated = [](const Tensor& y) { return log(1.0 - sigmoid(y)); };
  check_only(lines_of(gated, row_of({8.4f}), o1()), LintRule::saturation, "above 8.32");
  CHECK(lines_of(gated, row_of({8.3f}), o1()).empty());
  check_only(lines_of(gated, row_of({6.3f}), o1(DType::bf16)), LintRule::saturation, "above 6.24");
  check_only(lines_of([](const Tensor& y) { return log1p(-tanh(y)); }, row_of({4.6f}), o1()),
             LintRule::saturation, "above 4.51");
  CHECK(lines_of([](const Tensor& y) { return sigmoid(y); }, row_of({12.0f}), o1()).empty());

  const auto logarithm = [](const Tensor& y) { return log(sum(y, {1}) + 1.0); };
  check_only(lines_of(logarithm, kOnes, all_low()), LintRule::log_of_sum, "logsumexp");
  CHECK(lines_of(logarithm, kOnes, o1()).empty());
}

TEST_CASE("lint: sums in 16 bits", "[lint]") {
  const auto added = [](const Tensor& y) { return sum(y) * 1e-3; };
  Tensor many = Tensor::full({20, 8}, 500.0);
  check_only(lines_of(added, many, all_low()), LintRule::sum, "160 values of up to 500");
  CHECK(lines_of(added, many, o1()).empty());
  CHECK(lines_of(added, Tensor::full({2, 8}, 20.0), all_low()).empty());
  const auto own = [](const Tensor& y) { return apply(OwnSum{}, {y}).y; };
  check_only(lines_of(own, Tensor::full({300, 8}, 0.5), o1()), LintRule::sum, "from 2048 on");
  CHECK(lines_of(own, Tensor::full({200, 8}, 0.5), o1()).empty());
  check_only(lines_of(own, Tensor::full({40, 8}, 0.5), o1(DType::bf16)), LintRule::sum, "from 256 on");
}

TEST_CASE("lint: deviations that a mean hides", "[lint]") {
  const auto one_pass = [](const Tensor& y) { return mean(square(y)) - square(mean(y)); };
  Tensor offset = Tensor::from({50, 52, 50, 52, 50, 52, 50, 52}, {1, 8});
  check_only(lines_of(one_pass, offset, o1()), LintRule::variance, "51 deviations");
  CHECK(lines_of([](const Tensor& y) { return var(y); }, offset, o1()).empty());
  CHECK(lines_of(one_pass, Tensor::from({40, 42, 40, 42, 40, 42, 40, 42}, {1, 8}), o1()).empty());
  check_only(lines_of(one_pass, Tensor::from({20, 22, 20, 22, 20, 22, 20, 22}, {1, 8}), o1(DType::bf16)),
             LintRule::variance, "from 16 on");

  Tensor flat = Tensor::full({1, 8}, 300.0);
  flat.data<float>()[0] = 300.25f;
  const auto normed = [](const Tensor& y) { return layer_norm(y, {}, {}); };
  check_only(lines_of(normed, flat, o1()), LintRule::deviation, "subtract the mean first");
  CHECK(lines_of(normed, offset, o1()).empty());
  CHECK(lines_of(normed, kOnes, o1()).empty());  // of no deviation at all
}

TEST_CASE("lint: integers as positions, losses, ranges, weights", "[lint]") {
  const auto same = [](const Tensor& y) { return y; };
  check_only(lines_of(same, row_of({0, 1, 2049}), o1(), 0.01), LintRule::position, "up to 2048");
  CHECK(lines_of(same, row_of({0, 1, 2048}), o1(), 0.01).empty());
  check_only(lines_of(same, row_of({0, 1, 257}), o1(DType::bf16)), LintRule::position, "up to 256");

  Probe model(same);
  const auto loss_lines = [&](const std::function<Tensor(const Tensor&)>& loss) {
    return lines_of(model, o1(), [&] { return loss(model(kOnes)); });
  };
  for (const auto& own : std::vector<std::function<Tensor(const Tensor&)>>{
           [](const Tensor& y) { return mean(exp(y)); }, [](const Tensor& y) { return mean(log(y + 1.0)); },
           [](const Tensor& y) { return mean(pow(y, 3.0)); },
           [](const Tensor& y) { return mean(div(kOnes, y + 1.0)); }})
    check_only(loss_lines(own), LintRule::loss, "compute in FP32");
  CHECK(loss_lines([](const Tensor& y) { return mean(exp(cast(y, DType::f32))); }).empty());

  check_only(lines_of(same, row_of({0.5f}), o1(), 2e5), LintRule::range, "infinite in f16");
  check_only(lines_of([](const Tensor& y) { return relu(y) + 1.0; }, row_of({0.5f, 700.3f}), o1()),
             LintRule::amax, "bits below overflow");
  CHECK(lines_of(same, row_of({0.5f, 511.5f}), o1()).empty());
  // Of data that are seen in another shape, once.
  const Tensor data = row_of({0.5f, 700.3f});
  check_only(lines_of(model, o1(),
                      [&] {
                        return mean(model(reshape(data, {1, 8})) * 1e-3);
                      }),
             LintRule::amax, "bits below overflow");
  CHECK(lines_of(same, row_of({0.5f, 700.3f}), o1(DType::bf16)).empty());
  check_only(lines_of(same, kOnes, o1(), 0x1p-26), LintRule::weights, "100 % of weight");
  CHECK(lines_of(same, kOnes, o1(), 0x1p-24).empty());
}

TEST_CASE("lint: nothing where nothing is 16-bit", "[lint]") {
  CHECK(lines_of([](const Tensor& y) { return exp(y * 1e9); }, kOnes, amp::Precision::fp32()).empty());
}
