// Forced algorithms and traces: each algorithm computes the passes that it claims to support, and traces do
// not change the choice.
#include "core/cpu/conv_probe.h"

#include <catch2/catch.hpp>

#include "bench/conv_shapes.h"
#include "core/error.h"
#include "core/kernels/conv.h"
#include "tests/core/kernel_testing.h"

using namespace tandem;
using cpu::ConvAlgorithm;
using cpu::convolution_by;
using cpu::ForcedConvolution;
using cpu::onednn::Convolution;
using cpu::onednn::Pass;

namespace {

constexpr std::array kAlgorithms{ConvAlgorithm::generic, ConvAlgorithm::library,  ConvAlgorithm::product,
                                 ConvAlgorithm::direct,  ConvAlgorithm::winograd, ConvAlgorithm::depthwise,
                                 ConvAlgorithm::amx};
constexpr std::array kPasses{Pass::forward, Pass::input_gradient, Pass::filter_gradient};

// Layers of the networks of ./run bench with fewer pixels and images, and what stands at the borders of what
// the algorithms can compute.
const std::vector<std::string_view> kShapes{"1>16@9b3",
                                            "2>16@9x8b2",
                                            "3>16@9b2",
                                            "3>32@17k7s2b2",
                                            "1>16@9s3b2",
                                            "4>16@9b2",
                                            "3>16@8k1b2",
                                            "1>32@10k4s2b2",
                                            "16>16@9x8b3",
                                            "16>32@9s2b2",
                                            "16>32@8k1s2b3",
                                            "32>32@7b2",
                                            "48>64@9x10p2b2",
                                            "32>48@8p0b2",
                                            "32>16@7p2x0b1",
                                            "32>32@9s3b2",
                                            "16>32@9d2b2",
                                            "32>48@9s2x1d1x2b2",
                                            "64>64@7k1b3",
                                            "64>128@8k1s2b2",
                                            "80>48@6k1s3x2b2",
                                            "128>1@4k4p0b2",
                                            "128>100@4k4p0b2",
                                            "16>11@9k1b2",
                                            "64>128@8k2s2b2",
                                            "8>12@9g4b2",
                                            "32>32@9g2b2",
                                            "512>272@5k1b2",
                                            "64>64@6k1p1b2",
                                            "256>128@5s2b2",
                                            "24>24@9x7g24b3",
                                            "40>40@7x20k5g40b2",
                                            "16>16@11s2g16b2",
                                            "16>16@5x4b37",   // several images a unit, with a rest
                                            "48>16@40x33b1",  // several units an image
                                            "16>80@66x67s2b1",
                                            "96>32@5x6p2x1b9",
                                            "32>16@40x41k5x1d2b1",
                                            "33>33@9k5s2g33b3",
                                            "19>19@8k2s3p0g19b1",
                                            "32>32@9x12k3x5d2x3s2x1g32b2",
                                            "16>16@6k7x4s3x2p5x1g16b3",
                                            "17>17@4k1p1s2g17b2",
                                            "8>8@3k5d3g8b1"};

struct Operands {
  Operands(const Convolution& p, DType dtype)
      : x(normal_tensor({p.batch, p.height, p.width, p.channels}, dtype, 1)),
        filter(normal_tensor({p.out_channels, p.kernel_height, p.kernel_width, p.channels / p.options.groups},
                             dtype, 2)),
        y(normal_tensor({p.batch, p.out_height, p.out_width, p.out_channels}, dtype, 3)) {}
  Tensor x, filter, y;
};

Tensor in(const Tensor& tensor, DType dtype) {
  const Tensor copy = Tensor::empty(tensor.shape(), {.dtype = dtype});
  cpu::backend().cast(tensor, copy, false);
  return copy;
}

// A pass on the operands; what it writes starts as ones.
Tensor computed(Pass pass, const Convolution& p, const Operands& of, DType result, bool accumulate = false) {
  const Tensor& like = pass == Pass::forward ? of.y : pass == Pass::input_gradient ? of.x : of.filter;
  const Tensor out = Tensor::full(like.shape(), 1.0, {.dtype = result});
  Backend& backend = cpu::backend();
  if (pass == Pass::forward) backend.conv().conv2d(of.x, of.filter, {}, out, p.options);
  if (pass == Pass::input_gradient)
    backend.conv().conv2d_input_gradient(of.y, of.filter, out, p.options, accumulate);
  if (pass == Pass::filter_gradient)
    backend.conv().conv2d_filter_gradient(of.x, of.y, out, p.options, accumulate);
  return out;
}

}  // namespace

TEST_CASE("every algorithm that can compute a pass gives its result", "[conv_probe]") {
  std::array<int, kAlgorithms.size()> count{};
  for (const std::string_view name : kShapes) {
    const Convolution p = bench::parse_convolution(name);
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const Operands operands(p, dtype);
      Operands wide = operands;
      for (Tensor* tensor : {&wide.x, &wide.filter, &wide.y}) *tensor = in(*tensor, DType::f64);
      for (const Pass pass : kPasses) {
        for (const bool accumulate : {false, true}) {
          if (accumulate && pass == Pass::forward) continue;
          const DType result = pass == Pass::filter_gradient ? DType::f32 : dtype;
          const auto expected = computed(pass, p, wide, DType::f64, accumulate).to_vector<double>();
          for (const ConvAlgorithm algorithm : kAlgorithms) {
            if (!convolution_by(algorithm, pass, p, {dtype, dtype, result}, accumulate, cpu::conv_machine()))
              continue;
            INFO(name << " pass " << static_cast<int>(pass) << ' ' << name_of(dtype) << " by "
                      << name_of(algorithm) << (accumulate ? ", added" : ""));
            const ForcedConvolution forced(algorithm);
            cpu::ConvolutionTrace trace;
            const Tensor got = computed(pass, p, operands, result, accumulate);
            const auto took = trace.take();
            REQUIRE(took.size() == 1);
            CHECK(took[0].starts_with(name_of(algorithm)));
            CHECK(normalised_error(got.to_vector<double>(), expected) <= tolerance_of_sums(dtype, result));
            ++count[static_cast<std::size_t>(algorithm)];
          }
        }
      }
    }
  }
  const bool own = cpu::level() >= cpu::Level::v3;
  for (const ConvAlgorithm algorithm : kAlgorithms) {
    INFO(name_of(algorithm));
    const bool expected =
        algorithm == ConvAlgorithm::amx ? cpu::level() == cpu::Level::amx : own || !cpu::is_own(algorithm);
    CHECK((count[static_cast<std::size_t>(algorithm)] > 0) == expected);
  }
}

TEST_CASE("unsupported algorithms are refused", "[conv_probe]") {
  const Convolution p = bench::parse_convolution("16>16@8k1b2");
  const Operands operands(p, DType::f32);
  {
    const ForcedConvolution forced(ConvAlgorithm::winograd);
    CHECK_THROWS_AS(computed(Pass::forward, p, operands, DType::f32), InternalError);
  }
  const ForcedConvolution forced(ConvAlgorithm::product);
  CHECK_THROWS_AS(computed(Pass::forward, p, operands, DType::f32), InternalError);
  CHECK_NOTHROW(computed(Pass::input_gradient, p, operands, DType::f32));
}

TEST_CASE("a forced algorithm leaves the choice as it is", "[conv_probe]") {
  const Convolution p = bench::parse_convolution("32>32@8b4");
  const Operands operands(p, DType::f32);
  for (const Pass pass : kPasses) {
    const auto chosen = [&] {
      cpu::ConvolutionTrace trace;
      const auto values = computed(pass, p, operands, DType::f32).to_vector<float>();
      return std::pair(trace.take(), values);
    };
    const auto name =
        name_of(choose_convolution(pass, p, {DType::f32, DType::f32, DType::f32}, false, cpu::conv_machine())
                    .algorithm);
    const auto before = chosen();
    CHECK(before.first.at(0).starts_with(name));
    {
      const ForcedConvolution forced(ConvAlgorithm::generic);
      CHECK(chosen().first == std::vector<std::string>{"generic"});
      {
        const ForcedConvolution inner(ConvAlgorithm::library);
        CHECK(chosen().first.at(0).starts_with("library "));
      }
      CHECK(ForcedConvolution::active() == ConvAlgorithm::generic);
    }
    CHECK(!ForcedConvolution::active());
    CHECK(chosen() == before);
  }
  CHECK(cpu::ConvolutionTrace::active() == nullptr);
}

TEST_CASE("short names of convolutions", "[conv_probe]") {
  const Convolution p = bench::parse_convolution("64>128@28k3s2b8");
  CHECK(p.channels == 64);
  CHECK(p.out_channels == 128);
  CHECK(p.batch == 8);
  CHECK(p.height == 28);
  CHECK(p.width == 28);
  CHECK(p.out_height == 14);
  CHECK(p.out_width == 14);
  CHECK(p.kernel_height == 3);
  CHECK(p.kernel_width == 3);
  CHECK(p.options == Conv2dOptions{.stride = {2, 2}, .padding = {1, 1}});
  const Convolution other = bench::parse_convolution("8>12@9x7g4p2x0d2k3x2s1x2");
  CHECK(other.height == 9);
  CHECK(other.width == 7);
  CHECK(other.kernel_height == 3);
  CHECK(other.kernel_width == 2);
  CHECK(other.options == Conv2dOptions{.stride = {1, 2}, .padding = {2, 0}, .dilation = {2, 2}, .groups = 4});
  CHECK(other.out_height == 9);
  CHECK(other.out_width == 3);
  CHECK(other.batch == 16);

  CHECK(bench::short_name(p) == "64>128@28s2b8");
  CHECK(bench::short_name(other) == "8>12@9x7k3x2s1x2d2p2x0g4b16");
  for (const std::string_view name : kShapes) {
    const std::string text = bench::short_name(bench::parse_convolution(name));
    CHECK(bench::short_name(bench::parse_convolution(text)) == text);
  }

  for (const std::string_view wrong :
       {"", "64", "64>", "64>128", "64>128@", "64-128@28", "0>128@28", "64>128@28x", "64>128@28k",
        "64>128@28k0", "64>128@28k3k3", "64>128@28q2", "64>128@28 k3", "64>128@28b-1", "64>128@28s0",
        "64>128@9999999", "64>128@28k3.5", "6>4@8g4"}) {
    INFO(wrong);
    CHECK_THROWS_AS(bench::parse_convolution(wrong), UserError);
  }
  CHECK_THROWS_WITH(bench::parse_convolution("6>8@3k5p0"),
                    "[6>8@3k5p0] a kernel of 5×5 is larger than images of 3×3 with their padding");
}
