// Convolutions divided by images: equal results for any number of threads and any assignment.
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <vector>

#include "core/backend.h"
#include "core/cpu/conv_choice.h"
#include "core/cpu/conv_probe.h"
#include "core/cpu/cpu_features.h"
#include "core/cpu/level.h"
#include "core/kernels/conv.h"
#include "tests/support/threads.h"

using namespace tandem;
using cpu::ConvAlgorithm;
using cpu::onednn::Convolution;
using cpu::onednn::Pass;

namespace {

constexpr Index kBatch = 37, kSide = 14, kIn = 16, kOut = 32;
constexpr Pass kPasses[] = {Pass::forward, Pass::input_gradient, Pass::filter_gradient};

Tensor filled(const Shape& shape, DType dtype, const std::function<float()>& next) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) value = next();
  const Tensor result = Tensor::empty(shape, {.dtype = dtype});
  cpu::backend().cast(Tensor::from(values, shape), result, false);
  return result;
}

struct Operands {
  Tensor x, filter, dy;
  Operands(DType dtype, const std::function<float()>& next)
      : x(filled({kBatch, kSide, kSide, kIn}, dtype, next)),
        filter(filled({kOut, 3, 3, kIn}, dtype, next)),
        dy(filled({kBatch, kSide, kSide, kOut}, dtype, next)) {}
};

std::vector<float> computed(Pass pass, const Operands& o, const Tensor& start = {}) {
  const Conv2dOptions options{.padding = {1, 1}};
  Backend& backend = cpu::backend();
  const bool add = start.defined();
  Tensor result;
  if (pass == Pass::forward) {
    result = Tensor::empty(o.dy.shape(), {.dtype = o.x.dtype()});
    backend.conv().conv2d(o.x, o.filter, {}, result, options);
  } else if (pass == Pass::input_gradient) {
    result = Tensor::empty(o.x.shape(), {.dtype = o.x.dtype()});
    backend.conv().conv2d_input_gradient(o.dy, o.filter, result, options, false);
  } else {
    result = Tensor::empty(o.filter.shape());
    if (add) backend.copy_bytes(start, result);
    backend.conv().conv2d_filter_gradient(o.x, o.dy, result, options, add);
  }
  return result.to_vector<float>();
}

bool can(ConvAlgorithm algorithm, Pass pass, DType dtype) {
  Convolution p{.batch = kBatch,
                .height = kSide,
                .width = kSide,
                .channels = kIn,
                .out_height = kSide,
                .out_width = kSide,
                .out_channels = kOut,
                .kernel_height = 3,
                .kernel_width = 3,
                .options = {.padding = {1, 1}}};
  const DType result = pass == Pass::filter_gradient ? DType::f32 : dtype;
  return cpu::convolution_by(algorithm, pass, p, {dtype, dtype, result}, false, cpu::conv_machine())
      .has_value();
}

void for_each_way(const std::function<void(Pass, DType)>& check) {
  for (const ConvAlgorithm algorithm :
       {ConvAlgorithm::library, ConvAlgorithm::direct, ConvAlgorithm::winograd, ConvAlgorithm::amx})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const Pass pass : kPasses) {
        if (!can(algorithm, pass, dtype)) continue;
        const cpu::ForcedConvolution forced(algorithm);
        INFO(cpu::name_of(algorithm) << " " << name_of(dtype) << " pass " << static_cast<int>(pass));
        check(pass, dtype);
      }
}

}  // namespace

TEST_CASE("convolutions of small integers are the same by any number of threads", "[conv][shares]") {
  std::mt19937 random(1);
  const auto integer = [&] { return static_cast<float>(static_cast<int>(random() % 7U) - 3); };
  for_each_way([&](Pass pass, DType dtype) {
    const Operands operands(dtype, integer);
    const Tensor start = filled({kOut, 3, 3, kIn}, DType::f32, integer);
    const auto by = [&](int count, bool add) {
      const test::ThreadCount threads(count);
      return computed(pass, operands, add ? start : Tensor{});
    };
    const bool filter = pass == Pass::filter_gradient;
    const std::vector<float> expected = by(1, false), added = filter ? by(1, true) : expected;
    for (const int count : {2, 3, 5}) {
      CHECK(by(count, false) == expected);
      if (filter) CHECK(by(count, true) == added);
    }
  });
}

TEST_CASE("a convolution repeats its bits whoever works on a share", "[conv][shares]") {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for_each_way([&](Pass pass, DType dtype) {
    const Operands operands(dtype, [&] { return normal(random); });
    const test::ThreadCount threads(5);  // more than there are cores: they take each other's shares
    const std::vector<float> first = computed(pass, operands);
    for (int repeat = 0; repeat < 10; ++repeat) CHECK(computed(pass, operands) == first);
  });
}

TEST_CASE("few images are divided into strips of rows", "[conv][shares]") {
  struct Shape {
    Index height, width, kernel, stride, padding, dilation, in, out, groups;
  };
  const Shape shapes[] = {{56, 56, 3, 1, 1, 1, 64, 64, 1},  {57, 40, 3, 2, 1, 1, 64, 64, 1},
                          {56, 56, 1, 2, 0, 1, 64, 128, 1}, {112, 96, 7, 2, 3, 1, 3, 64, 1},
                          {40, 40, 3, 1, 2, 2, 64, 64, 1},  {45, 45, 2, 3, 0, 1, 64, 64, 1},
                          {64, 64, 5, 1, 4, 1, 32, 32, 1},  {64, 64, 3, 1, 1, 1, 64, 64, 2}};
  std::mt19937 random(3);
  const auto integer = [&] { return static_cast<float>(static_cast<int>(random() % 5U) - 2); };
  const cpu::ForcedConvolution forced(ConvAlgorithm::library);
  Backend& backend = cpu::backend();
  for (const Shape& s : shapes) {
    const Conv2dOptions options{.stride = {s.stride, s.stride},
                                .padding = {s.padding, s.padding},
                                .dilation = {s.dilation, s.dilation},
                                .groups = s.groups};
    const auto extent = [&](Index side) {
      return (side + 2 * s.padding - s.dilation * (s.kernel - 1) - 1) / s.stride + 1;
    };
    for (const Index batch : {1, 3}) {
      const Tensor x = filled({batch, s.height, s.width, s.in}, DType::f32, integer);
      const Tensor filter = filled({s.out, s.kernel, s.kernel, s.in / s.groups}, DType::f32, integer);
      const Tensor dy = filled({batch, extent(s.height), extent(s.width), s.out}, DType::f32, integer);
      const auto results = [&](int count) {
        const test::ThreadCount threads(count);
        const Tensor y = Tensor::empty(dy.shape()), dx = Tensor::empty(x.shape());
        const Tensor dfilter = Tensor::empty(filter.shape());
        backend.conv().conv2d(x, filter, {}, y, options);
        backend.conv().conv2d_input_gradient(dy, filter, dx, options, false);
        backend.conv().conv2d_filter_gradient(x, dy, dfilter, options, false);
        return std::array{y.to_vector<float>(), dx.to_vector<float>(), dfilter.to_vector<float>()};
      };
      // Sums of small integers are exact.
      const auto expected = results(1);
      for (const int count : {2, 5}) {
        CAPTURE(s.height, s.kernel, s.stride, s.padding, s.dilation, s.groups, batch, count);
        CHECK((results(count) == expected));
      }
    }
  }
}
