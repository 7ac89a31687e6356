// 16-bit convolutions of images with few channels, which a GPU pads with zero channels.
#include <array>
#include <cmath>
#include <memory>

#include "amp/autocast.h"
#include "autograd/engine.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/kernels/conv.h"
#include "nn/layers/conv.h"
#include "tests/device/support.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// Multiples of 1/8 whose products and sums are exact in any order.
Tensor eighths(const Shape& shape, std::uint64_t seed) {
  std::vector<double> values = random_values(shape.numel(), seed, -8.0, 9.0);
  for (double& value : values) value = std::floor(value) / 8.0;
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
}

struct Results {
  std::vector<double> y, dfilter, dbias;  // y rounded to the type asked for
};

// Gradients are those of two backward passes, so that the second one is added to the first.
Results results(nn::Conv2d& conv, const Tensor& images, DType multiplied, DType rounded, Device device) {
  conv.to(device);
  conv.clear_gradients();
  Results results;
  for (int pass = 0; pass < 2; ++pass) {
    Tensor y, loss;
    {
      const amp::Autocast autocast(
          {.level = multiplied == DType::f32 ? amp::Level::O0 : amp::Level::O1, .dtype = multiplied});
      y = conv(images.to(device));
      loss = sum(mul(y, eighths(y.shape(), 9).to(device)));
    }
    backward(loss);
    results.y = cast(y, rounded).to_vector<double>();
  }
  results.dfilter = conv.weight().gradient().to_vector<double>();
  results.dbias = conv.bias().gradient().to_vector<double>();
  return results;
}

std::unique_ptr<nn::Conv2d> exact_conv(Index channels, Index out_channels, Index kernel,
                                       const nn::ConvOptions& options) {
  auto conv = std::make_unique<nn::Conv2d>(channels, out_channels, std::array{kernel, kernel}, options);
  Backend& host = backend_for({});
  for (const Parameter& parameter : {conv->weight(), conv->bias()}) {
    host.copy_bytes(eighths(parameter.value().shape(), 2), parameter.value());
    parameter.value().storage()->bump_version();
  }
  return conv;
}

}  // namespace

TEST_CASE("a 16-bit convolution of few channels has the products of FP32, rounded once",
          "[device][few_channels]") {
  const std::vector<std::pair<Index, nn::ConvOptions>> ways = {{3, {}},
                                                               {1, {}},
                                                               {1, {.stride = {2, 2}}},
                                                               {7, {.stride = {2, 2}, .padding = {3, 3}}},
                                                               {3, {.padding = {1, 2}, .dilation = {2, 1}}}};
  for (const Index channels : {1, 2, 3, 4, 5}) {
    for (const auto& [kernel, options] : ways) {
      for (const Index out_channels : {5, 8}) {
        for (const DType dtype : {DType::f16, DType::bf16}) {
          CAPTURE(channels, kernel, options.stride[0], options.padding[1], out_channels, name_of(dtype));
          const Tensor images = eighths({2, 9, 8, channels}, 1);
          const auto reference = exact_conv(channels, out_channels, kernel, options),
                     conv = exact_conv(channels, out_channels, kernel, options);
          const Results expected = results(*reference, images, DType::f32, dtype, {});
          const Results got = results(*conv, images, dtype, dtype, test_device());
          CHECK(got.y == expected.y);
          CHECK(got.dfilter == expected.dfilter);
          CHECK(got.dbias == expected.dbias);
        }
      }
    }
  }
}

// cuDNN 9.19 writes wrong ones where counts of channels are multiples of 4 and not of 8, if it is asked to.
TEST_CASE("filter gradients are those of FP32 whatever the counts of channels", "[device][few_channels]") {
  for (const Index channels : {4, 6, 8, 12}) {
    for (const Index out_channels : {1, 4, 8, 12, 16}) {
      for (const DType dtype : {DType::f16, DType::bf16}) {
        CAPTURE(channels, out_channels, name_of(dtype));
        const Tensor images = eighths({2, 6, 6, channels}, 1);
        const auto reference = exact_conv(channels, out_channels, 2, {}),
                   conv = exact_conv(channels, out_channels, 2, {});
        CHECK(results(*conv, images, dtype, dtype, test_device()).dfilter ==
              results(*reference, images, DType::f32, dtype, {}).dfilter);
      }
    }
  }
}

// As `precision.wgrad=lower` asks for.
TEST_CASE("filter gradients in 16 bits are those of FP32, rounded once", "[device][few_channels]") {
  Backend& backend = backend_under_test();
  for (const Index channels : {1, 3, 4, 6, 8}) {
    for (const Index out_channels : {5, 8}) {
      for (const DType dtype : {DType::f16, DType::bf16}) {
        CAPTURE(channels, out_channels, name_of(dtype));
        const Tensor x = cast(eighths({2, 6, 6, channels}, 1), dtype).to(test_device());
        const Tensor dy = cast(eighths({2, 5, 5, out_channels}, 2), dtype).to(test_device());
        const auto gradient = [&](DType of_result, bool twice) {
          const Tensor result = Tensor::zeros({out_channels, 2, 2, channels}, {of_result, test_device()});
          backend.conv().conv2d_filter_gradient(x, dy, result, {}, false);
          if (twice) backend.conv().conv2d_filter_gradient(x, dy, result, {}, true);
          return cast(result, dtype).to_vector<double>();
        };
        CHECK(gradient(dtype, false) == gradient(DType::f32, false));
        CHECK(gradient(dtype, true) == gradient(DType::f32, true));
      }
    }
  }
}

TEST_CASE("groups of few channels are as they are", "[device][few_channels]") {
  nn::Conv2d conv(3, 6, std::array<Index, 2>{3, 3}, {.groups = 3});
  conv.to(test_device());
  const amp::Autocast autocast({.level = amp::Level::O1, .dtype = DType::f16});
  CHECK(conv(eighths({2, 5, 5, 3}, 1).to(test_device())).shape() == Shape{2, 3, 3, 6});
}

TEST_CASE("sums that a convolution of few channels gives are those of its result", "[device][few_channels]") {
  for (const Index channels : {1, 3}) {
    const Tensor x = cast(eighths({4, 9, 8, channels}, 1), DType::f16).to(test_device());
    const Tensor filter = cast(eighths({8, 3, 3, channels}, 2), DType::f16).to(test_device());
    Tensor sums;
    for (int call = 0; call < 2; ++call) {  // the first may only try it out
      const Tensor y = conv2d(x, filter, {}, {}, &sums);
      if (!sums.defined()) continue;
      const auto values = cast(y, DType::f32).to_vector<float>();
      const auto given = sums.to_vector<float>();
      for (std::size_t c = 0; c < 8; ++c) {
        double sum = 0, squares = 0;
        for (std::size_t i = c; i < values.size(); i += 8) {
          sum += values[i];
          squares += values[i] * values[i];
        }
        CHECK(given[c] == Approx(sum).epsilon(1e-3).margin(1e-2));
        CHECK(given[8 + c] == Approx(squares).epsilon(1e-3).margin(1e-2));
      }
    }
  }
}
