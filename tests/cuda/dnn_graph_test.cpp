// cuDNN graphs of convolutions without a GPU: the frontend accepts them, and the library offers plans for a
// described GPU.
#include <fmt/core.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <optional>
#include <set>

#include "core/cuda/dnn.h"
#include "core/error.h"

using namespace tandem;
using namespace tandem::cuda::dnn;
using Catch::Matchers::Contains;
using tandem::cuda::Rules;

namespace {

// An H100 (SXM, 80 GB) in the terms of cuDNN 9.19.
constexpr std::string_view kH100 =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,
        "multiProcessorCount":132,"smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,
        "warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,
        "reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"pciDeviceId":0,"maxCtasPerSM":32,
        "maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"isTccDriver":0,"supportCoopLaunch":1,
        "deviceVer":900,"driverVer":13000,"cudaDeviceId":0,"totalGlobalMem":85000000000,
        "deviceName":"NVIDIA H100 80GB HBM3"})";

constexpr Pass kPasses[] = {Pass::forward, Pass::input_gradient, Pass::filter_gradient};

Index out_extent(Index extent, Index kernel, const Conv2dOptions& o, int axis) {
  return (extent + 2 * o.padding[axis] - o.dilation[axis] * (kernel - 1) - 1) / o.stride[axis] + 1;
}

Convolution convolution(std::array<Index, 4> x, Index out_channels, std::array<Index, 2> kernel,
                        const Conv2dOptions& options = {}) {
  return {.batch = x[0],
          .height = x[1],
          .width = x[2],
          .channels = x[3],
          .out_height = out_extent(x[1], kernel[0], options, 0),
          .out_width = out_extent(x[2], kernel[1], options, 1),
          .out_channels = out_channels,
          .kernel_height = kernel[0],
          .kernel_width = kernel[1],
          .options = options};
}

// A convolution of a residual network: square, padded to keep the extent.
Convolution square(Index batch, Index extent, Index in, Index out, Index kernel, Index stride) {
  return convolution({batch, extent, extent, in}, out, {kernel, kernel},
                     {.stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}});
}

std::vector<Convolution> resnet20(Index batch) {
  std::vector<Convolution> all = {square(batch, 32, 3, 16, 3, 1)};
  Index in = 16, extent = 32;
  for (const Index channels : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
      const Index stride = channels != in ? 2 : 1;
      all.push_back(square(batch, extent, in, channels, 3, stride));
      if (stride != 1) all.push_back(square(batch, extent, in, channels, 1, stride));
      extent /= stride;
      all.push_back(square(batch, extent, channels, channels, 3, 1));
      in = channels;
    }
  }
  return all;
}

// Bottlenecks that stride in their 3×3 convolution.
std::vector<Convolution> resnet50(Index batch) {
  std::vector<Convolution> all = {square(batch, 224, 3, 64, 7, 2)};
  constexpr int kBlocks[] = {3, 4, 6, 3};
  Index in = 64, extent = 56, channels = 64;
  for (int stage = 0; stage < 4; ++stage, channels *= 2) {
    for (int block = 0; block < kBlocks[stage]; ++block) {
      const Index stride = stage > 0 && block == 0 ? 2 : 1;
      all.push_back(square(batch, extent, in, channels, 1, 1));
      all.push_back(square(batch, extent, channels, channels, 3, stride));
      if (block == 0) all.push_back(square(batch, extent, in, 4 * channels, 1, stride));
      extent /= stride;
      all.push_back(square(batch, extent, channels, 4 * channels, 1, 1));
      in = 4 * channels;
    }
  }
  return all;
}

// The first ones of images that the loader pads.
std::vector<Convolution> padded_stems() {
  return {square(128, 32, 4, 16, 3, 1), square(128, 28, 4, 16, 3, 1), square(64, 224, 4, 64, 7, 2)};
}

std::vector<Convolution> grouped_and_dilated() {
  return {
      convolution({32, 28, 28, 256}, 256, {3, 3}, {.padding = {1, 1}, .groups = 32}),
      convolution({32, 28, 28, 128}, 256, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 4}),
      convolution({32, 28, 28, 144}, 144, {3, 3}, {.padding = {1, 1}, .groups = 144}),  // depthwise
      convolution({32, 28, 28, 32}, 64, {5, 5}, {.padding = {2, 2}, .groups = 32}),     // with a multiplier
      convolution({8, 64, 64, 64}, 64, {3, 3}, {.padding = {2, 2}, .dilation = {2, 2}}),
      convolution({8, 64, 64, 64}, 128, {3, 3}, {.padding = {4, 4}, .dilation = {4, 4}, .groups = 2}),
      convolution({8, 40, 30, 16}, 24, {3, 2},
                  {.stride = {1, 2}, .padding = {3, 1}, .dilation = {2, 3}, .groups = 2}),
      convolution({2, 9, 8, 5}, 7, {3, 2}, {.stride = {1, 2}, .padding = {2, 0}}),
      convolution({1, 1, 1, 1}, 1, {1, 1}),
  };
}

std::vector<Convolution> all_convolutions() {
  std::vector<Convolution> all = resnet20(128);
  for (const auto& more : {resnet50(64), padded_stems(), grouped_and_dilated()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

// One of each: networks repeat their shapes.
std::vector<Convolution> distinct(const std::vector<Convolution>& all) {
  std::vector<Convolution> some;
  std::set<std::string> seen;
  for (const Convolution& p : all) {
    if (seen.insert(to_string(p)).second) some.push_back(p);
  }
  return some;
}

Convolution typed(Convolution p, DType dtype, DType result, bool bias = false) {
  p.dtype = dtype;
  p.result = result;
  p.bias = bias;
  return p;
}

Convolution adding(Convolution p) {
  p.add = true;
  return p;
}

Convolution summing(Convolution p) {
  p.sums = true;
  return p;
}

// Whether this cuDNN understands the description; versions differ in what they want to know.
bool describes_a_device() {
  try {
    return !plans_on(kH100, Pass::forward, square(1, 8, 8, 8, 3, 1), {}).empty();
  } catch (const VendorError& error) {
    WARN("no plans without a GPU: " << error.what());
    return false;
  }
}

}  // namespace

TEST_CASE("The networks have the convolutions they are known for", "[dnn]") {
  CHECK(resnet20(1).size() == 19 + 2);  // with projections
  CHECK(resnet50(1).size() == 53);
  double products = 0;
  for (const Convolution& p : resnet50(1))
    products += double(p.out_height * p.out_width * p.out_channels) *
                double(p.kernel_height * p.kernel_width * p.channels);
  CHECK(products == Approx(4.087e9).epsilon(0.001));
}

TEST_CASE("The graph of every pass, type and result validates", "[dnn]") {
  for (const Convolution& shape : distinct(all_convolutions())) {
    REQUIRE(expressible(shape));
    for (const Pass pass : kPasses) {
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        for (const DType result : {dtype, DType::f32}) {
          const Convolution p = typed(shape, dtype, result);
          CAPTURE(key_text(pass, p, {}));
          CHECK_NOTHROW(validate(pass, p));
          if (pass == Pass::forward) CHECK_NOTHROW(validate(pass, typed(shape, dtype, result, true)));
          if (pass == Pass::forward && result == dtype) CHECK_NOTHROW(validate(pass, summing(p)));
          if (pass == Pass::input_gradient && result == dtype) CHECK_NOTHROW(validate(pass, adding(p)));
        }
      }
    }
  }
}

TEST_CASE("A graph that is refused is a VendorError with call, text, shapes and advice", "[dnn]") {
  // A filter of 2^32 elements.
  const Convolution p = typed(square(1, 1, 65536, 65536, 1, 1), DType::f16, DType::f16);
  try {
    validate(Pass::forward, p);
    FAIL("validated");
  } catch (const VendorError& error) {
    CHECK_THAT(error.what(), Contains("[cudnn] conv2d: validate: ") && Contains("INT32_MAX") &&
                                 Contains("filter [65536,1,1,65536]") && Contains("CUDNN_LOGLEVEL_DBG"));
  }
  CHECK_THROWS_AS(validate(Pass::forward, typed(square(1, 8, 8, 8, 3, 1), DType::f64, DType::f64)),
                  InternalError);
}

TEST_CASE("graphs that cuDNN cannot express are known beforehand", "[dnn]") {
  const Convolution whole = square(4, 9, 8, 8, 3, 2);
  CHECK(expressible(whole));
  Convolution p = whole;
  --p.out_height;  // the upper part of the output, as some transposed convolutions have it
  CHECK_FALSE(expressible(p));
  p = whole;
  p.batch = 0;
  CHECK_FALSE(expressible(p));
  p = whole;
  p.channels = 0;
  CHECK_FALSE(expressible(p));
  CHECK_FALSE(expressible(convolution({1, 2, 2, 4}, 4, {4, 4})));
}

TEST_CASE("Products are what is known to be one", "[dnn]") {
  const auto is = [](Pass pass, const Convolution& p) { return is_product(pass, p); };
  const Convolution pointwise = square(4, 9, 8, 16, 1, 1);
  CHECK(is(Pass::forward, pointwise));
  CHECK(is(Pass::input_gradient, pointwise));
  CHECK_FALSE(is(Pass::filter_gradient, pointwise));
  CHECK_FALSE(is(Pass::forward, square(4, 9, 8, 16, 1, 2)));
  CHECK_FALSE(is(Pass::forward, square(4, 9, 8, 16, 3, 1)));
  CHECK_FALSE(is(Pass::forward, convolution({4, 9, 9, 8}, 16, {1, 1}, {.groups = 2})));
  CHECK_FALSE(is(Pass::forward, convolution({4, 9, 9, 8}, 16, {1, 1}, {.padding = {1, 0}})));
  CHECK_FALSE(is(Pass::forward, typed(pointwise, DType::f16, DType::f16, true)));
  CHECK(is(Pass::forward, typed(pointwise, DType::f32, DType::f32, true)));
  CHECK_FALSE(is(Pass::forward, summing(pointwise)));
  CHECK_FALSE(is(Pass::input_gradient, adding(pointwise)));
  std::size_t found = 0;
  for (const Convolution& p : resnet50(64)) found += is(Pass::forward, p);
  CHECK(found == 33);
}

TEST_CASE("Alternatives give up the bias first, then f32", "[dnn]") {
  const Convolution shape = square(4, 9, 8, 8, 3, 1);
  const auto expect = [&](Pass pass, const Convolution& asked, const Rules& rules,
                          const std::vector<std::pair<DType, bool>>& expected) {
    const auto found = alternatives(pass, asked, rules);
    CAPTURE(key_text(pass, asked, rules));
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == typed(asked, asked.dtype, expected[i].first, expected[i].second));
  };
  const DType f32 = DType::f32, f16 = DType::f16;
  expect(Pass::forward, typed(shape, f32, f32), {}, {{f32, false}});
  expect(Pass::forward, typed(shape, f32, f32, true), {}, {{f32, true}, {f32, false}});
  expect(Pass::forward, typed(shape, f16, f16, true), {}, {{f16, true}, {f32, false}, {f16, false}});
  expect(Pass::forward, typed(shape, f16, f32, true), {}, {{f32, true}, {f32, false}, {f16, false}});
  expect(Pass::filter_gradient, typed(shape, f16, f32), {}, {{f32, false}, {f16, false}});
  // Those that cuDNN writes wrong are not asked for.
  expect(Pass::filter_gradient, typed(square(4, 9, 4, 8, 3, 1), f16, f32), {}, {{f16, false}});
  expect(Pass::filter_gradient, typed(square(4, 9, 8, 12, 3, 1), f16, f32), {}, {{f16, false}});
  expect(Pass::input_gradient, typed(square(4, 9, 4, 4, 3, 1), f16, f32), {}, {{f32, false}, {f16, false}});
  const Rules narrow = {.wide_cost = 0};
  expect(Pass::filter_gradient, typed(shape, f16, f32), narrow, {{f16, false}});
  expect(Pass::filter_gradient, typed(shape, f32, f32), narrow, {{f32, false}});
  expect(Pass::forward, typed(shape, f16, f16, true), narrow, {{f16, true}, {f16, false}});
}

TEST_CASE("Every difference of a problem or a rule that matters has its own line in the table", "[dnn]") {
  std::set<std::string> lines;
  std::size_t asked = 0;
  const auto add = [&](Pass pass, const Convolution& p, const Rules& rules) {
    ++asked;
    lines.insert(key_text(pass, p, rules));
  };
  for (const Convolution& shape : distinct(all_convolutions())) {
    for (const Pass pass : kPasses) {
      add(pass, shape, {});
      add(pass, shape, {.deterministic = true});
      add(pass, shape, {.allow_tf32 = false});
      add(pass, typed(shape, DType::f16, DType::f16), {});
      add(pass, typed(shape, DType::bf16, DType::f32), {});
      add(pass, typed(shape, DType::bf16, DType::f32), {.wide_cost = 0});
    }
    add(Pass::forward, typed(shape, DType::f32, DType::f32, true), {});
    add(Pass::forward, summing(typed(shape, DType::f16, DType::f16)), {});
    add(Pass::input_gradient, adding(typed(shape, DType::f16, DType::f16)), {});
  }
  CHECK(lines.size() == asked);
  // TF32 is no matter of 16-bit types.
  const Convolution p = typed(square(4, 9, 8, 8, 3, 1), DType::f16, DType::f16);
  CHECK(key_text(Pass::forward, p, {}) == key_text(Pass::forward, p, {.allow_tf32 = false}));
}

TEST_CASE("An H100 has plans for every pass whose operands and result share a type", "[dnn]") {
  if (!describes_a_device()) return;
  for (const Convolution& shape : distinct(all_convolutions())) {
    for (const Pass pass : kPasses) {
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        const Convolution p = typed(shape, dtype, dtype);
        CAPTURE(key_text(pass, p, {}));
        const auto names = plans_on(kH100, pass, p, {});
        CHECK_FALSE(names.empty());
        for (const Rules& strict : {Rules{.deterministic = true}, Rules{.allow_tf32 = false}}) {
          CAPTURE(strict.deterministic);
          const auto fewer = plans_on(kH100, pass, p, strict);
          CHECK_FALSE(fewer.empty());
          const std::set<std::string> all(names.begin(), names.end());
          for (const std::string& name : fewer) CHECK(all.count(name) == 1);
        }
      }
    }
  }
}

// The other fusions of batch norm with convolutions that cuDNN knows apply the norm to the operands, with
// coefficients in f16.
TEST_CASE("An H100 has plans that sum what they write for every f16 convolution of the residual networks",
          "[dnn]") {
  if (!describes_a_device()) return;
  std::vector<Convolution> all = resnet20(128);
  for (const Convolution& p : resnet50(64)) all.push_back(p);
  for (const Convolution& shape : distinct(all)) {
    if (shape.channels % 8 != 0) continue;  // the first convolution
    const Convolution p = summing(typed(shape, DType::f16, DType::f16));
    CAPTURE(key_text(Pass::forward, p, {}));
    CHECK_FALSE(plans_on(kH100, Pass::forward, p, {}).empty());
    CHECK(plans_on(kH100, Pass::forward, summing(typed(shape, DType::bf16, DType::bf16)), {}).empty());
  }
}

TEST_CASE("The rules take plans away", "[dnn]") {
  if (!describes_a_device()) return;
  const Convolution p = square(64, 56, 64, 64, 3, 1);
  const auto count = [&](const Rules& rules) {
    return plans_on(kH100, Pass::filter_gradient, p, rules).size();
  };
  CHECK(count({.deterministic = true}) < count({}));
  CHECK(count({.allow_tf32 = false}) < count({}));
}

TEST_CASE("cuDNN itself refuses a graph whose extents contradict one another", "[dnn]") {
  if (!describes_a_device()) return;
  const Convolution whole = square(4, 9, 8, 8, 3, 1);
  for (const Pass pass : kPasses) {
    CHECK_FALSE(plans_on(kH100, pass, whole, {}).empty());
    Convolution p = whole;
    --p.out_height;
    CHECK_THROWS_AS(plans_on(kH100, pass, p, {}), VendorError);
    p = whole;
    p.options.dilation = {2, 1};
    CHECK_THROWS_AS(plans_on(kH100, pass, p, {}), VendorError);
  }
}
