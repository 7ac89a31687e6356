// Rounding to 16 bits on every value, half-way point and neighbour of one: scalar functions, the cast kernel,
// rounding in place, and the working copy that an update writes.
#include <catch2/catch.hpp>
#include <cstring>

#include "core/backend.h"
#include "core/convert.h"
#include "core/kernels/update.h"
#include "core/kernels/update_rules.h"
#include "tests/core/narrowing_cases.h"

using namespace tandem;
using namespace tandem::test;

namespace {

template <class S>
constexpr DType kType = std::is_same_v<S, Half> ? DType::f16 : DType::bf16;

NarrowingCases finite(const NarrowingCases& cases) {
  NarrowingCases result;
  for (std::size_t i = 0; i < cases.values.size(); ++i) {
    if (std::isinf(cases.values[i])) continue;
    result.values.push_back(cases.values[i]);
    result.expected.push_back(cases.expected[i]);
  }
  return result;
}

Index count_of(const NarrowingCases& cases) { return static_cast<Index>(cases.values.size()); }

}  // namespace

TEMPLATE_TEST_CASE("scalars round to nearest even at every half-way point", "[narrowing]", Half, BFloat16) {
  const NarrowingCases& cases = narrowing_cases<TestType>();
  CHECK(cases.values.size() > 8 * 31000);
  std::size_t wrong = 0, wrong_reference = 0, wrong_double = 0;
  const Format format = format_of<TestType>();
  for (std::size_t i = 0; i < cases.values.size(); ++i) {
    const float value = cases.values[i];
    wrong += convert<TestType>(value).bits != cases.expected[i];
    wrong_reference += format.encode(static_cast<double>(value)) != cases.expected[i];
    wrong_double += convert<TestType>(static_cast<double>(value)).bits != cases.expected[i];
  }
  CHECK(wrong == 0);
  CHECK(wrong_reference == 0);
  CHECK(wrong_double == 0);
  for (const float nan : nan_values()) CHECK(is_quiet_nan(convert<TestType>(nan)));
}

TEMPLATE_TEST_CASE("the cast kernel rounds at every half-way point, at any length and offset", "[narrowing]",
                   Half, BFloat16) {
  Backend& backend = backend_for({});
  const NarrowingCases& cases = narrowing_cases<TestType>();
  const Index count = count_of(cases);
  const Tensor x = Tensor::from(cases.values, {count});
  for (const Index length : {Index{1}, Index{5}, Index{17}, Index{1023}, Index{32769}, count}) {
    CAPTURE(length);
    const Tensor y = Tensor::zeros({count}, {.dtype = kType<TestType>});
    for (Index first = 0; first < count; first += length) {
      const Index n = std::min(length, count - first);
      backend.cast(x.rows(first, n), y.rows(first, n));
    }
    CHECK(count_wrong(y.data<TestType>(), cases) == 0);
  }
  const Tensor wide = Tensor::empty({count}, {.dtype = DType::f64});
  const Tensor y = Tensor::empty({count}, {.dtype = kType<TestType>});
  backend.cast(x, wide);
  backend.cast(wide, y);
  CHECK(count_wrong(y.data<TestType>(), cases) == 0);
}

TEMPLATE_TEST_CASE("the cast kernel widens every pattern and brings it back", "[narrowing]", Half, BFloat16) {
  Backend& backend = backend_for({});
  const Tensor patterns = Tensor::from(all_patterns<TestType>(), {65536});
  for (const Index length : {7, 16, 65536}) {
    CAPTURE(length);
    const Tensor wide = Tensor::empty({65536}), back = Tensor::empty({65536}, patterns.options());
    for (Index first = 0; first < 65536; first += length) {
      const Index n = std::min<Index>(length, 65536 - first);
      backend.cast(patterns.rows(first, n), wide.rows(first, n));
      backend.cast(wide.rows(first, n), back.rows(first, n));
    }
    CHECK(count_wrong_widened<TestType>(wide.data<float>()) == 0);
    std::size_t wrong = 0;
    for (std::size_t bits = 0; bits < 65536; ++bits) {
      const TestType got = back.data<TestType>()[bits];
      wrong += std::isnan(wide.data<float>()[bits]) ? !is_quiet_nan(got) : got.bits != bits;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("between the two 16-bit types every pattern rounds once", "[narrowing]") {
  Backend& backend = backend_for({});
  const auto check = [&]<class From, class To>(From, To) {
    const Tensor patterns = Tensor::from(all_patterns<From>(), {65536});
    const Tensor cast = Tensor::empty({65536}, {.dtype = kType<To>});
    backend.cast(patterns, cast);
    std::size_t wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const double value = format_of<From>().decode(bits);
      const To got = cast.data<To>()[bits];
      wrong += std::isnan(value) ? !is_quiet_nan(got) : got.bits != format_of<To>().encode(value);
    }
    CHECK(wrong == 0);
  };
  check(Half{}, BFloat16{});
  check(BFloat16{}, Half{});
}

TEMPLATE_TEST_CASE("rounding in place takes the nearest value", "[narrowing]", Half, BFloat16) {
  const NarrowingCases& cases = narrowing_cases<TestType>();
  for (const Index length : {Index{1}, Index{17}, count_of(cases)}) {
    const Tensor x = Tensor::from(cases.values, {count_of(cases)});
    for (Index first = 0; first < x.numel(); first += length)
      backend_for({}).update().round_to(x.rows(first, std::min(length, x.numel() - first)), kType<TestType>);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < cases.values.size(); ++i) {
      const float expected = widen(TestType{cases.expected[i]});
      wrong += std::memcmp(x.data<float>() + i, &expected, sizeof(float)) != 0;
    }
    CHECK(wrong == 0);
  }
}

TEMPLATE_TEST_CASE("the working copy of an update rounds at every half-way point", "[narrowing]", Half,
                   BFloat16) {
  const NarrowingCases cases = finite(narrowing_cases<TestType>());  // weight decay times ∞ is NaN
  const Index count = count_of(cases);
  constexpr std::uint16_t kSentinel = 0xabcd;
  // A learning rate of 0: masters stay, working copies are written. Ranges of odd lengths with a gap each.
  for (const Index length : {Index{47}, Index{4097}, count}) {
    CAPTURE(length);
    const Index spacing = length == count ? count : length + 17;
    const Index parts = (count + length - 1) / length, total = parts * spacing;
    UpdateBuffers buffers{.master = Tensor::zeros({total}), .gradient = Tensor::zeros({total})};
    buffers.working = Tensor::empty({total}, {.dtype = kType<TestType>});
    std::fill_n(buffers.working.template data<TestType>(), total, TestType{kSentinel});
    buffers.counts = Tensor::zeros({parts}, {.dtype = DType::i64});
    std::vector<UpdateRange> ranges;
    for (Index p = 0; p < parts; ++p) {
      const Index n = std::min(length, count - p * length);
      ranges.push_back({.first = p * spacing, .count = n, .slot = p});
      std::copy_n(cases.values.data() + p * length, n, buffers.master.template data<float>() + p * spacing);
    }
    const StepState state;
    const Tensor device = Tensor::zeros({sizeof(StepState)}, {.dtype = DType::u8});
    std::memcpy(device.raw(), &state, sizeof(state));
    backend_for({}).update().update(update_rules::Sgd{}, ranges, buffers, device);

    std::vector<TestType> written;
    std::size_t changed = 0, touched = 0;
    const auto* working = buffers.working.template data<TestType>();
    const float* masters = buffers.master.template data<float>();
    for (const UpdateRange& range : ranges) {
      written.insert(written.end(), working + range.first, working + range.first + range.count);
      for (Index i = 0; i < range.count; ++i)
        changed +=
            masters[range.first + i] != cases.values[static_cast<std::size_t>(range.slot * length + i)];
      for (Index i = range.first + range.count; i < (range.slot + 1) * spacing; ++i)
        touched += working[i].bits != kSentinel;
    }
    CHECK(count_wrong(written.data(), cases) == 0);
    CHECK(changed == 0);
    CHECK(touched == 0);
  }
}
