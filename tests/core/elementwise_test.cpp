// Elementwise kernels: formulas over the whole range of floats, every mixture of dtypes, broadcasting,
// in-place and accumulating calls, casts.
#include "core/kernels/elementwise.h"

#include <bit>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "core/convert.h"
#include "core/kernels/formulas.h"
#include "tests/core/kernel_testing.h"

using namespace tandem;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr DType kAll[] = {DType::f64, DType::f32, DType::f16, DType::bf16,
                          DType::i64, DType::i32, DType::u8,  DType::boolean};

template <class F>
Tensor run(std::vector<Tensor> inputs, const Tensor& y, Scalars scalars = {}, bool accumulate = false) {
  cpu::backend().elementwise().pointwise(formula_id<F>(), scalars, inputs, y, accumulate);
  return y;
}

// Distance of `got` from `want` in units of the last place of a float.
double ulps(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : HUGE_VAL;
  const auto rounded = static_cast<float>(want);
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : HUGE_VAL;
  int exponent;
  std::frexp(rounded, &exponent);
  return std::abs(got - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Elementary {
  const char* name;
  FormulaId formula;
  std::function<double(double)> exact;
  double ulps;
};

TEST_CASE("elementary functions stay within their bounds over all floats") {
  const double root = std::sqrt(2.0);
  const Elementary functions[] = {
      {"exp", formula_id<formulas::Exp>(), [](double x) { return std::exp(x); }, 1.0},
      {"expm1", formula_id<formulas::Expm1>(), [](double x) { return std::expm1(x); }, 2.0},
      {"log", formula_id<formulas::Log>(), [](double x) { return std::log(x); }, 1.0},
      {"log1p", formula_id<formulas::Log1p>(), [](double x) { return std::log1p(x); }, 2.0},
      {"tanh", formula_id<formulas::Tanh>(), [](double x) { return std::tanh(x); }, 3.0},
      {"erf", formula_id<formulas::Erf>(), [](double x) { return std::erf(x); }, 1.0},
      {"sigmoid", formula_id<formulas::Sigmoid>(), [](double x) { return 0.5 + 0.5 * std::tanh(x / 2); },
       4.0},
      {"sqrt", formula_id<formulas::Sqrt>(), [](double x) { return std::sqrt(x); }, 0.5},
  };
  std::vector<float> samples = {0.0f, -0.0f, kInf, -kInf, kNan, 1.0f, -1.0f, 88.7f, 88.8f, -104.0f};
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 200003)
    samples.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  const Tensor x = Tensor::from(samples, Shape{static_cast<Index>(samples.size())});
  for (const Elementary& f : functions) {
    const Tensor y = Tensor::empty(x.shape());
    cpu::backend().elementwise().pointwise(f.formula, {}, {&x, 1}, y, false);
    double worst = 0;
    float at = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      // The oracle of sigmoid cancels far left of 0.
      if (std::string_view(f.name) == "sigmoid" && samples[i] < -10.0f) continue;
      const double error = ulps(y.data<float>()[i], f.exact(static_cast<double>(samples[i])));
      if (error > worst) {
        worst = error;
        at = samples[i];
      }
    }
    INFO(f.name << " at " << at);
    CHECK(worst <= f.ulps);
  }
  Index wrong = 0;
  const Tensor gelu = run<formulas::Gelu>({x}, Tensor::empty(x.shape()));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double v = static_cast<double>(samples[i]);
    if (!(std::abs(v) < 1e4)) continue;
    wrong += !(std::abs(gelu.data<float>()[i] - v * 0.5 * std::erfc(-v / root)) <=
               2e-7 * std::max(1.0, std::abs(v)));
  }
  CHECK(wrong == 0);
}

TEST_CASE("pointwise takes any mixture of dtypes") {
  const Shape shape{3, 701};
  for (const DType a : kAll) {
    for (const DType b : kAll) {
      for (const DType out : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
        const Tensor x = normal_tensor(shape, a, 1), y = normal_tensor(shape, b, 2);
        const Tensor z = run<formulas::Add>({x, y}, Tensor::empty(shape, {.dtype = out}));
        const auto u = x.to_vector<double>(), v = y.to_vector<double>(), w = z.to_vector<double>();
        const bool in_f64 =
            a == DType::f64 || b == DType::f64 || (is_integral(a) && is_integral(b) && out == DType::f64);
        Index wrong = 0;
        for (std::size_t i = 0; i < u.size(); ++i) {
          const double exact = in_f64 ? u[i] + v[i] : static_cast<float>(u[i]) + static_cast<float>(v[i]);
          const double rounded =
              visit_floating(out, [&]<class T>(TypeTag<T>) { return convert<double>(convert<T>(exact)); });
          wrong += w[i] != rounded;
        }
        REQUIRE(wrong == 0);
      }
    }
  }
}

TEST_CASE("integers stay exact") {
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  const Tensor a = Tensor::from(std::vector<std::int64_t>{big, -3, 0}, Shape{3});
  const Tensor b = Tensor::from(std::vector<std::int32_t>{2, 5, -7}, Shape{3});
  const Tensor y = run<formulas::Mul>({a, b}, Tensor::empty(Shape{3}, {.dtype = DType::i64}));
  REQUIRE(y.to_vector<std::int64_t>() == std::vector<std::int64_t>{2 * big, -15, 0});
  const Tensor less = run<formulas::Less>({a, b}, Tensor::empty(Shape{3}, {.dtype = DType::boolean}));
  REQUIRE(less.to_vector<bool>() == std::vector<bool>{false, true, false});
  const Tensor clamped =
      run<formulas::Clamp>({b}, Tensor::empty(Shape{3}, {.dtype = DType::i32}), {-HUGE_VAL, 3.0});
  REQUIRE(clamped.to_vector<std::int32_t>() == std::vector<std::int32_t>{2, 3, -7});
}

// y = a·b + c by indices, where extents of 1 repeat.
void check_broadcast(const Shape& a_shape, const Shape& b_shape, const Shape& c_shape, const Shape& shape,
                     DType dtype) {
  INFO(to_string(a_shape) << " " << to_string(b_shape) << " " << to_string(c_shape) << " " << name_of(dtype));
  const Tensor a = normal_tensor(a_shape, dtype, 1), b = normal_tensor(b_shape, dtype, 2),
               c = normal_tensor(c_shape, dtype, 3);
  const Tensor y = run<formulas::Lerp>({a, b, c}, Tensor::empty(shape, {.dtype = DType::f64}));
  const auto element = [&](const Tensor& t, Index linear) {
    const Shape& s = t.shape();
    Index at = 0, step = 1;
    for (int axis = shape.rank() - 1, own = s.rank() - 1; own >= 0; --axis, --own) {
      at += (s[own] == 1 ? 0 : linear % shape[axis]) * step;
      linear /= shape[axis];
      step *= s[own];
    }
    return visit_floating(t.dtype(), [&]<class T>(TypeTag<T>) { return convert<double>(t.data<T>()[at]); });
  };
  const double bound = dtype == DType::f64 ? 1e-14 : 2e-6;
  Index wrong = 0;
  for (Index i = 0; i < shape.numel(); ++i) {
    const double p = element(a, i), q = element(b, i), r = element(c, i);
    wrong += !(std::abs(y.data<double>()[i] - (p + r * (q - p))) <=
               bound * (1 + std::abs(p) + std::abs(q)) * (1 + std::abs(r)));
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("operands broadcast along any axes") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    check_broadcast({}, {}, {}, {}, dtype);
    check_broadcast({5}, {1}, {}, {5}, dtype);
    check_broadcast({4, 3}, {3}, {4, 1}, {4, 3}, dtype);
    check_broadcast({2, 1, 5}, {3, 1}, {2, 3, 5}, {2, 3, 5}, dtype);
    check_broadcast({1, 2000}, {3, 1}, {3, 2000}, {3, 2000}, dtype);
    check_broadcast({64, 1, 1, 17}, {64, 5, 7, 17}, {17}, {64, 5, 7, 17}, dtype);
    check_broadcast({2, 1, 3, 1, 2}, {1, 4, 1, 5, 2}, {2, 4, 3, 5, 1}, {2, 4, 3, 5, 2}, dtype);
    check_broadcast({3000, 16}, {16}, {1}, {3000, 16}, dtype);
    check_broadcast({40, 1500}, {1500}, {40, 1}, {40, 1500}, dtype);
    for (const Index width : {2, 4, 7, 8, 9, 31}) {
      const Shape rows{1400, 1}, shape{1400, width};
      check_broadcast(rows, shape, {1}, shape, dtype);
      check_broadcast(shape, rows, rows, shape, dtype);
    }
  }
}

TEST_CASE("pointwise writes over an operand and adds to what is there") {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const Shape shape{50, 997};
    const Tensor x = normal_tensor(shape, dtype, 1), y = normal_tensor(shape, dtype, 2);
    const auto a = x.to_vector<double>(), b = y.to_vector<double>();
    const Tensor fresh = run<formulas::Mul>({x, y}, Tensor::empty(shape, {.dtype = dtype}));
    const Tensor in_place = x.clone();
    run<formulas::Mul>({in_place, y}, in_place);
    REQUIRE(in_place.to_vector<double>() == fresh.to_vector<double>());
    const Tensor sum = y.clone();
    run<formulas::Mul>({x, y}, sum, {}, true);
    std::vector<double> expected;
    for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(b[i] + a[i] * b[i]);
    REQUIRE(normalised_error(sum.to_vector<double>(), expected) < tolerance(dtype));
  }
}

TEST_CASE("NaN follows the documented rules") {
  const Tensor a = Tensor::from({kNan, 1.0f, kNan, 2.0f}, Shape{4});
  const Tensor b = Tensor::from({1.0f, kNan, kNan, 2.0f}, Shape{4});
  for (const bool largest : {true, false}) {
    const Tensor y = Tensor::empty(Shape{4});
    largest ? run<formulas::Maximum>({a, b}, y) : run<formulas::Minimum>({a, b}, y);
    for (int i = 0; i < 3; ++i) REQUIRE(std::isnan(y.data<float>()[i]));
    REQUIRE(y.data<float>()[3] == 2.0f);
  }
  REQUIRE(std::isnan(run<formulas::Relu>({a}, Tensor::empty(Shape{4})).data<float>()[0]));
  REQUIRE(std::isnan(run<formulas::Clamp>({a}, Tensor::empty(Shape{4}), {-1.0, 1.0}).data<float>()[0]));
  // No gradient where nothing passed, even of infinity.
  const Tensor y = Tensor::from({0.0f, 3.0f}, Shape{2}), dy = Tensor::from({kInf, kInf}, Shape{2});
  const Tensor dx = run<formulas::GradientOf<formulas::Relu>>({y, dy}, Tensor::empty(Shape{2}));
  REQUIRE(dx.to_vector<float>() == std::vector<float>{0.0f, kInf});
}

TEST_CASE("casts go from any dtype to any dtype") {
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      for (const Index count : {0, 1, 15, 16, 17, 40001}) {
        INFO(name_of(from) << " to " << name_of(to) << ", " << count);
        const Tensor x = normal_tensor(Shape{count}, from == DType::u8 ? DType::boolean : from, 1);
        const Tensor source = Tensor::empty(x.shape(), {.dtype = from});
        cpu::backend().cast(x, source, false);
        // Negative numbers have no unsigned counterpart.
        if (to == DType::u8) run<formulas::Square>({source}, source);
        const Tensor y = Tensor::empty(x.shape(), {.dtype = to});
        cpu::backend().cast(source, y, false);
        Index wrong = 0;
        visit_dtype(from, [&]<class S>(TypeTag<S>) {
          visit_dtype(to, [&]<class D>(TypeTag<D>) {
            for (Index i = 0; i < count; ++i)
              wrong += convert<double>(y.data<D>()[i]) != convert<double>(convert<D>(source.data<S>()[i]));
          });
        });
        REQUIRE(wrong == 0);
      }
    }
  }
}

// What a cast from floating to integral means, in arithmetic that holds every integer and every float
// exactly.
template <class D>
D saturated_exactly(long double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<long double>(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
  if (value >= static_cast<long double>(std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
  return static_cast<D>(value);
}

// Every number of a 16-bit type; of a wider one all magnitudes, and the neighbours of each limit of an
// integer type.
template <class S>
std::vector<S> floats_of_all_sizes() {
  std::vector<S> all;
  if constexpr (sizeof(S) == 2) {
    for (int bits = 0; bits < 65536; ++bits) all.push_back({static_cast<std::uint16_t>(bits)});
  } else {
    const S infinity = std::numeric_limits<S>::infinity();
    for (const S limit : {S(0), S(1), S(255), S(256), S(0x1p31), S(0x1p32), S(0x1p63), S(0x1p64)}) {
      for (const S v : {limit, std::nextafter(limit, infinity), std::nextafter(limit, -infinity),
                        limit + S(0.5), limit - S(0.5), limit - S(1)}) {
        all.push_back(v);
        all.push_back(-v);
      }
    }
    all.insert(all.end(), {infinity, -infinity, std::numeric_limits<S>::quiet_NaN(),
                           -std::numeric_limits<S>::quiet_NaN(), std::numeric_limits<S>::max(),
                           std::numeric_limits<S>::lowest(), std::numeric_limits<S>::denorm_min()});
    for (int exponent = -10; exponent < 70; ++exponent) {
      for (const double digits : {1.0, 1.1, 1.5, 1.9999}) {
        all.push_back(static_cast<S>(std::ldexp(digits, exponent)));
        all.push_back(static_cast<S>(-std::ldexp(digits, exponent)));
      }
    }
  }
  return all;
}

TEMPLATE_TEST_CASE("floating to integral truncates, saturates, and makes NaN 0", "", double, float, Half,
                   BFloat16) {
  const std::vector<TestType> values = floats_of_all_sizes<TestType>();
  const Shape shape{static_cast<Index>(values.size())};
  const Tensor x = Tensor::empty(shape, {.dtype = dtype_of<TestType>()});
  std::copy(values.begin(), values.end(), x.data<TestType>());
  const auto check = [&]<class D>(TypeTag<D>) {
    INFO("to " << name_of(dtype_of<D>()));
    const Tensor y = Tensor::empty(shape, {.dtype = dtype_of<D>()}),
                 sum = Tensor::zeros(shape, {.dtype = dtype_of<D>()});
    cpu::backend().cast(x, y, false);
    cpu::backend().cast(x, sum, true);
    Index singles = 0, blocks = 0, sums = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const D expected = saturated_exactly<D>(static_cast<long double>(convert<double>(values[i])));
      singles += convert<D>(values[i]) != expected;
      blocks += y.data<D>()[i] != expected;
      sums += sum.data<D>()[i] != expected;
    }
    CHECK(singles == 0);
    CHECK(blocks == 0);
    CHECK(sums == 0);
  };
  check(TypeTag<std::int64_t>{});
  check(TypeTag<std::int32_t>{});
  check(TypeTag<std::uint8_t>{});
}

TEST_CASE("blocks of 16-bit numbers round as single ones do") {
  // Every 16-bit pattern widened, and floats around every rounding boundary narrowed.
  std::vector<float> floats;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 4099)
    floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (const double v : {65519.99, 65520.0, 0x1p-24, 0x1p-25, 1.0001 * 0x1p-25, 0.125 + 0x1p-14,
                         0.125 + 3 * 0x1p-14, 2049.0, 2051.0, 1 + 0x1p-8, 1 + 3 * 0x1p-8, 257.0})
    floats.push_back(static_cast<float>(v));
  const Tensor x = Tensor::from(floats, Shape{static_cast<Index>(floats.size())});
  const auto check = [&]<class S>(TypeTag<S>) {
    const Tensor y = Tensor::empty(x.shape(), {.dtype = dtype_of<S>()});
    cpu::backend().cast(x, y, false);
    Index wrong = 0;
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const S single = convert<S>(floats[i]);
      const bool both_nan = std::isnan(convert<float>(single)) && std::isnan(convert<float>(y.data<S>()[i]));
      wrong += !both_nan && single.bits != y.data<S>()[i].bits;
    }
    REQUIRE(wrong == 0);
    const Tensor all = Tensor::empty(Shape{65536}, {.dtype = dtype_of<S>()}),
                 wide = Tensor::empty(Shape{65536});
    for (int i = 0; i < 65536; ++i) all.data<S>()[i].bits = static_cast<std::uint16_t>(i);
    cpu::backend().cast(all, wide, false);
    for (int i = 0; i < 65536; ++i) {
      const float single = convert<float>(all.data<S>()[i]), block = wide.data<float>()[i];
      wrong += std::isnan(single)
                   ? !std::isnan(block)
                   : std::bit_cast<std::uint32_t>(single) != std::bit_cast<std::uint32_t>(block);
    }
    REQUIRE(wrong == 0);
  };
  check(TypeTag<Half>{});
  check(TypeTag<BFloat16>{});
}

TEST_CASE("an accumulating cast adds in the wider type and rounds once") {
  const Tensor x = normal_tensor(Shape{40000}, DType::bf16, 1);
  for (const DType dtype : {DType::f64, DType::f32, DType::f16}) {
    const Tensor y = normal_tensor(Shape{40000}, dtype, 2);
    const auto a = x.to_vector<double>(), b = y.to_vector<double>();
    cpu::backend().cast(x, y, true);
    std::vector<double> expected;
    for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(a[i] + b[i]);
    REQUIRE(normalised_error(y.to_vector<double>(), expected) < tolerance(dtype));
  }
}

TEST_CASE("fill converts its value") {
  for (const DType dtype : kAll) {
    const Tensor y = Tensor::full(Shape{33, 1001}, 1.0, {.dtype = dtype});
    const auto values = y.to_vector<double>();
    REQUIRE(std::all_of(values.begin(), values.end(), [](double v) { return v == 1.0; }));
  }
  REQUIRE(Tensor::full(Shape{2}, 65520.0, {.dtype = DType::f16}).to_vector<float>()[0] == kInf);
  const auto filled = [](double value, DType dtype) {
    return Tensor::full(Shape{1}, value, {.dtype = dtype}).item();
  };
  REQUIRE(filled(300.0, DType::u8) == 255.0);
  REQUIRE(filled(-kInf, DType::i32) == -0x1p31);
  REQUIRE(filled(kNan, DType::i64) == 0.0);
}

}  // namespace
