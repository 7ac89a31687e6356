// Transposed convolutions and upsampling against PyTorch: tests/golden/resampling.py makes the values; inputs
// come from the same hash here.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "files/safetensors.h"
#include "nn/layers/shape.h"
#include "tests/golden/hashed.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;

namespace {

using nlohmann::json;
using Pair = std::array<Index, 2>;
using Values = std::vector<double>;

constexpr const char* kFile = "tests/golden/resampling.safetensors";

// NCHW and back; filters [I,O,KH,KW] are [I,KH,KW,O] here.
Tensor to_here(const Tensor& tensor) { return permute(tensor, {0, 2, 3, 1}); }
Tensor to_there(const Tensor& tensor) { return permute(tensor, {0, 3, 1, 2}); }

Tensor input(const std::string& name, const Shape& there, DType dtype) {
  const Tensor hash = signed_unit(name, there);
  return leaf(cast(there.rank() == 4 ? to_here(hash) : hash, dtype).to(test::test_device()).detach());
}

// As PyTorch's are stored: y and the gradients of its product with a hash by every input.
Values with_gradients(const Tensor& y, const std::vector<Tensor>& inputs) {
  Values values;
  const auto append = [&](const Tensor& tensor) {
    const Tensor there = tensor.rank() == 4 ? to_there(tensor.detach()) : tensor;
    const Values more = there.to_vector<double>();
    values.insert(values.end(), more.begin(), more.end());
  };
  append(y);
  const Tensor hash = signed_unit("gradient", to_there(y.detach()).shape()).to(test::test_device());
  const DType wide = y.dtype() == DType::f64 ? DType::f64 : DType::f32;
  backward(sum(cast(y, wide) * cast(to_here(hash), wide)));
  for (const Tensor& each : inputs) append(gradient_of(each));
  return values;
}

// In FP32 and FP64 every value; in 16 bits, where the inputs are rounded already, all of them together.
void check(const Values& found, const Values& expected, DType dtype) {
  REQUIRE(found.size() == expected.size());
  const DType stored = dtype == DType::f64 ? DType::f32 : dtype;
  const test::Tolerance tolerance = test::tolerance_of(stored);
  CHECK(test::normalised_error(found, expected) < tolerance.relative);
  for (std::size_t i = 0; !is_16bit(dtype) && i < found.size(); ++i) {
    INFO("value " << i);
    CHECK(test::close(found[i], expected[i], tolerance));
  }
}

template <class Function>
void for_each_case(const std::string& kind, Function&& function) {
  const safetensors::File golden(test::source_path(kFile));
  const json cases = json::parse(golden.metadata().at(kind));
  REQUIRE(cases.size() >= 40);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Values expected = golden.read(kind + std::to_string(i)).to_vector<double>();
    for (const DType dtype : test::kFloatingTypes) {
      INFO(name_of(dtype) << " " << cases[i].dump());
      check(function(cases[i], dtype), expected, dtype);
    }
  }
}

}  // namespace

TEST_CASE("transposed convolutions are PyTorch's where the output padding reaches the stride") {
  for_each_case("transposed", [](const json& each, DType dtype) {
    const Conv2dOptions options{.stride = each["stride"].get<Pair>(),
                                .padding = each["padding"].get<Pair>(),
                                .dilation = each["dilation"].get<Pair>(),
                                .groups = each["groups"].get<Index>()};
    const Tensor x = input("x", {1, 2, 3, 2}, dtype);
    const Tensor filter = input("filter", {2, 2 / options.groups, 2, 3}, dtype);
    const Tensor bias = input("bias", {2}, dtype);
    return with_gradients(conv_transpose2d(x, filter, bias, options, each["output_padding"].get<Pair>()),
                          {x, filter, bias});
  });
}

TEST_CASE("upsampling by a factor that is not whole is PyTorch's, with the factor recomputed or not") {
  for_each_case("upsample", [](const json& each, DType dtype) {
    const auto size = each["size"].get<Pair>();
    nn::UpsampleOptions options;
    options.scale = each["scale"].get<std::array<double, 2>>();
    options.mode = each["mode"] == "nearest" ? ResizeMode::nearest : ResizeMode::bilinear;
    options.recompute_scale_factor = each["recompute"].get<bool>();
    const Tensor x = input("image", {2, 3, size[0], size[1]}, dtype);
    return with_gradients(nn::Upsample(options)(x), {x});
  });
}
