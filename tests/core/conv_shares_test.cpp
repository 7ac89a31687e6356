// Convolutions divided by images: equal results for any number of threads and any assignment.
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

using namespace tandem;
using cpu::ConvAlgorithm;
using cpu::onednn::Convolution;
using cpu::onednn::Pass;

namespace {

constexpr Index kBatch = 37, kSide = 14, kIn = 16, kOut = 32;
constexpr Pass kPasses[] = {Pass::forward, Pass::input_gradient, Pass::filter_gradient};

class Threads {
 public:
  explicit Threads(int count) { cpu::set_threads(count); }
  ~Threads() { cpu::set_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_ = cpu::threads();
};

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
      const Threads threads(count);
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
    const Threads threads(5);  // more than there are cores: they take each other's shares
    const std::vector<float> first = computed(pass, operands);
    for (int repeat = 0; repeat < 10; ++repeat) CHECK(computed(pass, operands) == first);
  });
}
