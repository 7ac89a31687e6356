#include "tests/ops/harness.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "autograd/grad_check.h"
#include "autograd/leaf.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "core/backend.h"
#include "tests/support/errors.h"
#include "tests/support/policy.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

namespace tandem::test {

namespace {

// Gradient checks look at cases of at most this many input elements.
constexpr Index kGradientLimit = 400;
constexpr Index kSecondLimit = 120;
// Comparisons of one dtype with another are cheap.
constexpr Index kLargeLimit = 100000;

const Draw& draw_of(const Row& row, std::size_t input) {
  return row.draws[std::min(input, row.draws.size() - 1)];
}

Index elements_of(const Shapes& shapes) {
  Index count = 0;
  for (const Shape& shape : shapes) count += shape.numel();
  return count;
}

std::string describe(const Row& row, const Shapes& shapes, DType dtype) {
  std::string text = to_string(row) + " in " + std::string(name_of(dtype)) + " on";
  for (const Shape& shape : shapes) {
    text += ' ';
    text += to_string(shape);
  }
  return text;
}

Array array_of(const Tensor& tensor) { return {tensor.shape(), tensor.to_vector<double>()}; }

Arrays arrays_of(const TensorList& tensors) {
  Arrays arrays;
  for (const Tensor& tensor : tensors) arrays.push_back(array_of(tensor));
  return arrays;
}

DType result_dtype(const Row& row, DType dtype) {
  switch (row.result) {
    case Result::same:
      return dtype;
    case Result::wide:
      return is_16bit(dtype) ? DType::f32 : dtype;
    case Result::boolean:
      return DType::boolean;
    case Result::i64:
      return DType::i64;
    case Result::f32:
      break;
  }
  return DType::f32;
}

// What a value becomes when it is stored.
double stored(double value, DType dtype) {
  if (!is_floating(dtype)) return value;
  return visit_dtype(dtype, [&]<class T>(TypeTag<T>) { return convert<double>(convert<T>(value)); });
}

void compare(const std::vector<double>& got, const std::vector<double>& expected, DType dtype, const Row& row,
             bool purely_relative = false) {
  Tolerance tolerance = tolerance_of(dtype);
  if (purely_relative) tolerance.absolute = std::numeric_limits<float>::min();
  tolerance.relative *= row.slack;
  tolerance.absolute *= row.slack;
  REQUIRE(got.size() == expected.size());
  if (row.normalised && is_floating(dtype)) {
    CHECK(normalised_error(got, expected) <= tolerance.relative);
    return;
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double rounded = stored(expected[i], dtype);
    if (close(got[i], rounded, tolerance)) continue;
    FAIL_CHECK("element " << i << " is " << got[i] << ", expected " << rounded);
    return;
  }
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](double p, double q) {
           return p == q ? std::signbit(p) == std::signbit(q) : std::isnan(p) && std::isnan(q);
         });
}

TensorList leaves_of(const TensorList& inputs) {
  TensorList leaves;
  for (const Tensor& input : inputs) leaves.push_back(is_floating(input.dtype()) ? leaf(input) : input);
  return leaves;
}

TensorList wanted_of(const TensorList& leaves) {
  TensorList wanted;
  for (const Tensor& t : leaves) {
    if (t.requires_grad()) wanted.push_back(t);
  }
  return wanted;
}

Tensor output_gradient(const Tensor& y, std::uint64_t seed = 99) {
  return random_tensor(y.shape(), y.dtype(), seed, 0.5, 1.5);
}

TensorList first_gradients(const Tensor& y, const Tensor& dy, const TensorList& inputs) {
  return gradients(std::span(&y, 1), std::span(&dy, 1), inputs);
}

// In f64 on the CPU, whose gradients are compared with central differences.
Tensor reference_of(const Tensor& t) {
  return is_floating(t.dtype()) ? Tensor::from(t.to_vector<double>(), t.shape()) : t.to(Device{});
}

// Zeros stand for an absent gradient.
std::vector<double> values_or_zeros(const Tensor& gradient, const Tensor& input) {
  return gradient.defined() ? gradient.to_vector<double>()
                            : std::vector<double>(static_cast<std::size_t>(input.numel()), 0.0);
}

// Rows of sums carry rounding of the forward's 16-bit results into the gradient: a few roundings, not one.
void compare_gradients(const std::vector<double>& got, const std::vector<double>& expected, DType dtype,
                       const Row& row) {
  REQUIRE(got.size() == expected.size());
  double largest = 0.0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  const double tolerance = 4.0 * row.slack * tolerance_of(dtype).relative;
  if (largest == 0.0) {
    for (const double value : got) CHECK(std::abs(value) <= tolerance);
  } else {
    CHECK(normalised_error(got, expected) <= tolerance);
  }
}

template <class Visit>
void for_each_small_case(const Row& row, Index limit, Visit&& visit) {
  int visited = 0;
  for (const Shapes& shapes : row.cases) {
    if (elements_of(shapes) > limit) continue;
    visited += elements_of(shapes) > 0;
    visit(shapes);
  }
  INFO(to_string(row) << " has no case small enough for a gradient check");
  CHECK(visited > 0);
}

}  // namespace

std::string to_string(const Row& row) {
  return row.variant.empty() ? std::string(row.op) : std::string(row.op) + " " + row.variant;
}

TensorList make_inputs(const Row& row, const Shapes& shapes, DType dtype, std::uint64_t seed) {
  TensorList inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Draw& draw = draw_of(row, i);
    DType own = draw.dtype.value_or(dtype);
    if (draw.parameter && is_16bit(dtype)) own = DType::f32;
    const bool whole = draw.whole || !is_floating(own);
    std::vector<double> values =
        random_values(shapes[i].numel(), seed * 100 + i, draw.low, draw.high + (whole ? 1.0 : 0.0));
    for (double& value : values) {
      if (whole) value = std::min(std::floor(value), draw.high);
      if (own == DType::u8) value = std::abs(value);
      for (const double kink : draw.kinks) {
        if (std::abs(value - kink) < draw.clearance && is_floating(own))
          value = value < kink ? kink - draw.clearance : kink + draw.clearance;
      }
    }
    inputs.push_back(tensor_of(values, shapes[i], own));
  }
  return inputs;
}

void check_forward(const Row& row, DType dtype) {
  std::uint64_t seed = 0;
  for (const Shapes& shapes : row.cases) {
    INFO(describe(row, shapes, dtype));
    const TensorList inputs = make_inputs(row, shapes, dtype, ++seed);
    const Arrays before = arrays_of(inputs);
    const Tensor y = row.run(inputs);
    const Array expected = row.oracle(before);
    CHECK(y.dtype() == result_dtype(row, dtype));
    REQUIRE(y.shape() == expected.shape);
    compare(y.to_vector<double>(), expected.values, y.dtype(), row);
    CHECK(same_bits(row.run(inputs).to_vector<double>(), y.to_vector<double>()));
    if (dtype == DType::f64) {
      INFO("as a composition of differentiable ops");
      const HigherOrder composed;
      compare(row.run(inputs).to_vector<double>(), expected.values, y.dtype(), row);
    }
    const Arrays after = arrays_of(inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) CHECK(same_bits(after[i].values, before[i].values));
  }
}

void check_points(const Row& row, DType dtype) {
  INFO(to_string(row) << " at given points in " << name_of(dtype));
  const Tensor x = tensor_of(row.points, {static_cast<Index>(row.points.size())}, dtype);
  const Tensor y = row.run({x});
  compare(y.to_vector<double>(), row.oracle({array_of(x)}).values, y.dtype(), row,
          /*purely_relative=*/true);
}

void check_gradient(const Row& row) {
  for_each_small_case(row, kGradientLimit, [&](const Shapes& shapes) {
    INFO(describe(row, shapes, DType::f64));
    const GradCheckReport report = grad_check(row.run, make_inputs(row, shapes, DType::f64));
    INFO(to_string(report));
    CHECK(report.passed);
  });
}

void check_second_gradient(const Row& row) {
  for_each_small_case(row, kSecondLimit, [&](const Shapes& shapes) {
    INFO(describe(row, shapes, DType::f64) << ", second order");
    const GradCheckReport report = grad_grad_check(row.run, make_inputs(row, shapes, DType::f64));
    INFO(to_string(report));
    CHECK(report.passed);
  });
}

void check_gradient_in(const Row& row, DType dtype) {
  for_each_small_case(row, kLargeLimit, [&](const Shapes& shapes) {
    INFO(describe(row, shapes, dtype) << ", gradient");
    const TensorList inputs = leaves_of(make_inputs(row, shapes, dtype));
    TensorList reference_inputs;
    for (const Tensor& input : inputs) reference_inputs.push_back(reference_of(input));
    reference_inputs = leaves_of(reference_inputs);
    const Tensor y = row.run(inputs), reference = row.run(reference_inputs);
    const Tensor dy = output_gradient(y);
    const TensorList got = first_gradients(y, dy, wanted_of(inputs));
    const TensorList expected = first_gradients(reference, reference_of(dy), wanted_of(reference_inputs));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Tensor input = wanted_of(inputs)[i];
      INFO("input " << i << " of those that have a gradient");
      REQUIRE(got[i].defined() == expected[i].defined());
      if (got[i].defined()) CHECK(got[i].dtype() == input.dtype());
      compare_gradients(values_or_zeros(got[i], input), values_or_zeros(expected[i], input), dtype, row);
    }
  });
}

void check_sinks(const Row& row) {
  for_each_small_case(row, kLargeLimit, [&](const Shapes& shapes) {
    INFO(describe(row, shapes, DType::f32) << ", gradients into flat buffers");
    const TensorList inputs = make_inputs(row, shapes, DType::f32);
    const TensorList leaves = leaves_of(inputs);
    const Tensor y = row.run(leaves), dy = output_gradient(y);
    const TensorList expected = first_gradients(y, dy, wanted_of(leaves));

    std::vector<Parameter> parameters;
    TensorList arguments;
    for (const Tensor& input : inputs) {
      if (!is_floating(input.dtype())) {
        arguments.push_back(input);
        continue;
      }
      Parameter parameter(input);
      parameter.move_into(Tensor::empty(input.shape(), input.options()),
                          Tensor::full(input.shape(), std::nan(""), input.options()));
      arguments.push_back(parameter);
      parameters.push_back(std::move(parameter));
    }
    for (const double times : {1.0, 2.0}) {
      const Tensor again = row.run(arguments);
      backward(std::span(&again, 1), std::span(&dy, 1));
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        INFO("parameter " << i << ", backward " << times);
        REQUIRE(parameters[i].gradient().defined() == expected[i].defined());
        if (!expected[i].defined()) continue;
        std::vector<double> scaled = expected[i].to_vector<double>();
        for (double& value : scaled) value *= times;
        compare_gradients(parameters[i].gradient().to_vector<double>(), scaled, DType::f32, row);
      }
    }
  });
}

void check_meeting(const Row& row, DType dtype) {
  for_each_small_case(row, kGradientLimit, [&](const Shapes& shapes) {
    INFO(describe(row, shapes, dtype) << ", gradients that meet");
    const TensorList leaves = leaves_of(make_inputs(row, shapes, dtype));
    const TensorList wanted = wanted_of(leaves);
    const Tensor alone = row.run(leaves), dy = output_gradient(alone);
    const TensorList expected = first_gradients(alone, dy, wanted);
    for (const bool other_first : {false, true}) {
      TensorList middle, outputs, seeds;
      for (const Tensor& t : leaves) middle.push_back(t.requires_grad() ? mul(t, 1.0) : t);
      const auto run_other = [&] {
        for (const Tensor& t : middle) {
          if (!t.requires_grad()) continue;
          outputs.push_back(mul(t, 3.0));
          seeds.push_back(Tensor::full(t.shape(), 1.0, t.options()));
        }
      };
      if (other_first) run_other();
      outputs.push_back(row.run(middle));
      seeds.push_back(dy);
      if (!other_first) run_other();
      const TensorList got = gradients(outputs, seeds, wanted);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        INFO("input " << i << (other_first ? ", the other consumer first" : ", the other consumer last"));
        std::vector<double> sum = values_or_zeros(expected[i], wanted[i]);
        for (double& value : sum) value += 3.0;
        compare_gradients(got[i].to_vector<double>(), sum, dtype, row);
      }
    }
  });
}

void check_held(const Row& row, DType dtype) {
  for_each_small_case(row, kGradientLimit, [&](const Shapes& shapes) {
    INFO(describe(row, shapes, dtype) << ", a gradient that is another tensor's too");
    const TensorList leaves = leaves_of(make_inputs(row, shapes, dtype));
    TensorList wanted = wanted_of(leaves);
    const Tensor alone = row.run(leaves), dy = output_gradient(alone);
    const std::vector<double> given = dy.to_vector<double>();
    const TensorList expected = first_gradients(alone, dy, wanted);
    const Tensor other = leaf(Tensor::zeros(alone.shape(), alone.options()));
    const Tensor earlier = mul(other, 1.0);  // an op before this one reads its gradient after it
    const Tensor sum = add(row.run(leaves), earlier);
    wanted.push_back(other);
    const TensorList got = gradients(std::span(&sum, 1), std::span(&dy, 1), wanted);
    CHECK(got.back().to_vector<double>() == given);
    CHECK(dy.to_vector<double>() == given);
    // And one that nobody else has, which may be.
    const Tensor last = mul(row.run(leaves), 1.0);
    const TensorList free = gradients(std::span(&last, 1), std::span(&dy, 1), wanted_of(leaves));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("input " << i);
      const std::vector<double> alike = values_or_zeros(expected[i], wanted[i]);
      compare_gradients(values_or_zeros(got[i], wanted[i]), alike, dtype, row);
      compare_gradients(values_or_zeros(free[i], wanted[i]), alike, dtype, row);
    }
  });
}

namespace {

// Looks at every execution of one op under a policy.
class RuleWatcher final : public OpObserver {
 public:
  RuleWatcher(const Row& row, DType low) : row_(row), low_(low) {}

  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    if (std::string(info.name) != row_.op) return;
    seen = true;
    DType common = DType::boolean;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined() || !is_floating(inputs[i].dtype())) continue;
      if (i < info.roles.size() && info.roles[i] == Role::keep) continue;
      if (info.rule == CastRule::lower) CHECK(inputs[i].dtype() == low_);
      common = promote(common, inputs[i].dtype());
    }
    if (!is_floating(common)) return;  // the op has no input on which precision has a say
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined() || !is_floating(outputs[i].dtype())) continue;
      CHECK(outputs[i].dtype() == (row_.wide_output == i ? DType::f32 : expected(info.rule, common)));
    }
  }

  bool seen = false;

 private:
  DType expected(CastRule rule, DType common) const {
    if (rule == CastRule::fp32 || row_.result == Result::wide || row_.result == Result::f32)
      return DType::f32;
    return rule == CastRule::lower ? low_ : common;
  }

  const Row& row_;
  DType low_;
};

}  // namespace

void check_autocast(const Row& row, DType low) {
  RulePolicy policy(low);
  const bool banned = executed_ops(row).at(row.op) == CastRule::banned;
  const Shapes& shapes = row.cases.front();
  for (const DType dtype : {DType::f32, low}) {
    INFO(describe(row, shapes, dtype) << " under autocast to " << name_of(low));
    const TensorList leaves = leaves_of(make_inputs(row, shapes, dtype));
    RuleWatcher watcher(row, low);
    Tensor y;
    {
      const PrecisionScope precision(&policy);
      const ObserverScope observing(watcher);
      if (banned) {
        CHECK_THROWS_AS(row.run(leaves), UserError);
        continue;
      }
      y = row.run(leaves);
    }
    CHECK(watcher.seen);
    if (!row.gradient) continue;
    const TensorList wanted = wanted_of(leaves), got = first_gradients(y, output_gradient(y), wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (got[i].defined()) CHECK(got[i].dtype() == wanted[i].dtype());
    }
  }
  // f64 is never touched.
  const PrecisionScope precision(&policy);
  if (!banned && row.result == Result::same)
    CHECK(row.run(make_inputs(row, shapes, DType::f64)).dtype() == DType::f64);
}

void check_absent(const Row& row) {
  const TensorList inputs = make_inputs(row, row.cases.front(), DType::f32);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    INFO(to_string(row) << " without input " << i);
    TensorList missing = inputs;
    missing[i] = {};
    try {
      row.run(missing);
    } catch (const UserError&) {
      // says what is missing
    } catch (const std::exception& error) {
      FAIL_CHECK("not a user error: " << error.what());
    }
  }
}

void check_refusals(const Row& row) {
  for (const Refusal& refusal : row.refusals) {
    INFO(to_string(row) << " refuses: " << refusal.says);
    if (test_device().type == DeviceType::cpu) {
      CHECK_FAILS(UserError, refusal.call(), refusal.says);
      continue;
    }
    // What a device finds wrong with values it tells when it is waited for.
    bool at_once = false;
    try {
      refusal.call();
    } catch (const UserError& error) {
      at_once = true;
      CHECK_THAT(error.what(), Catch::Contains(refusal.says));
    }
    if (!at_once) CHECK_FAILS(UserError, backend_for(test_device()).synchronize(), "lies outside [0,");
  }
}

std::vector<std::string> ops_without_row(const std::vector<const OpInfo*>& infos, const Rows& rows) {
  std::vector<std::string> without;
  for (const OpInfo* info : infos) {
    const std::string name = info->name;
    if (std::ranges::none_of(rows, [&](const Row& row) { return name == row.op; })) without.push_back(name);
  }
  return without;
}

namespace {
struct NameLog final : OpObserver {
  std::map<std::string, CastRule> names;
  void before_forward(const OpInfo& info, std::span<const Tensor>) override {
    names.emplace(info.name, info.rule);
  }
};
}  // namespace

std::map<std::string, CastRule> executed_ops(const Row& row) {
  NameLog log;
  const ObserverScope scope(log);
  row.run(make_inputs(row, row.cases.front(), DType::f32));  // attention composes f64
  return log.names;
}

}  // namespace tandem::test
