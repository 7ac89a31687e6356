// The rule that chooses a convolution's algorithm, as a table.
#include "core/cpu/conv_choice.h"

#include <catch2/catch.hpp>
#include <functional>
#include <vector>

using namespace tandem;
using cpu::choose_convolution;
using cpu::ConvAlgorithm;
using cpu::ConvMachine;
using cpu::Level;
using cpu::onednn::Convolution;
using cpu::onednn::Pass;

namespace {

constexpr ConvMachine kAvx2{Level::v3, false, 2}, kAvx512{Level::v4, false, 2},
    kBf16{Level::v4_bf16, true, 2}, kAmx{Level::amx, true, 2}, kOldest{Level::v2, false, 2};

// in→out channels at an image of `side`, a square kernel with the padding that keeps the side at stride 1.
Convolution shape(Index batch, Index in, Index out, Index side, Index kernel, Index stride = 1) {
  const Index padding = kernel / 2, reached = (side + 2 * padding - kernel) / stride + 1;
  return {.batch = batch,
          .height = side,
          .width = side,
          .channels = in,
          .out_height = reached,
          .out_width = reached,
          .out_channels = out,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .options = {.stride = {stride, stride}, .padding = {padding, padding}}};
}

cpu::ConvChoice choice(Pass pass, const Convolution& p, DType dtype, const ConvMachine& machine,
                       bool accumulate = false) {
  const DType out = pass == Pass::filter_gradient ? DType::f32 : dtype;
  return choose_convolution(pass, p, {dtype, dtype, out}, accumulate, machine);
}

struct Case {
  Convolution problem;
  ConvAlgorithm forward, input_gradient, filter_gradient;
};

void check(const std::vector<Case>& cases, DType dtype, const ConvMachine& machine) {
  for (const Case& c : cases) {
    INFO(to_string(c.problem) << " in " << name_of(dtype) << " at " << name_of(machine.level));
    CHECK(name_of(choice(Pass::forward, c.problem, dtype, machine).algorithm) == name_of(c.forward));
    CHECK(name_of(choice(Pass::input_gradient, c.problem, dtype, machine).algorithm) ==
          name_of(c.input_gradient));
    CHECK(name_of(choice(Pass::filter_gradient, c.problem, dtype, machine).algorithm) ==
          name_of(c.filter_gradient));
  }
}

constexpr auto library = ConvAlgorithm::library, product = ConvAlgorithm::product,
               direct = ConvAlgorithm::direct, winograd = ConvAlgorithm::winograd,
               generic = ConvAlgorithm::generic, depthwise = ConvAlgorithm::depthwise,
               amx = ConvAlgorithm::amx;

}  // namespace

TEST_CASE("the rule of f32", "[conv_choice]") {
  const std::vector<Case> everywhere = {
      {shape(128, 1, 16, 28, 3), library, library, library},
      {shape(128, 16, 32, 28, 3, 2), direct, direct, direct},
      {shape(128, 32, 32, 14, 3), winograd, winograd, winograd},
      {shape(128, 32, 64, 14, 3, 2), direct, direct, direct},
      {shape(128, 64, 64, 7, 3), winograd, winograd, winograd},
      {shape(16, 3, 64, 224, 7, 2), direct, library, direct},
      {shape(16, 128, 128, 56, 3, 2), library, direct, direct},
      {shape(16, 256, 256, 14, 3), winograd, winograd, winograd},
      {shape(16, 256, 1024, 14, 1), library, library, direct},
      {shape(16, 256, 256, 28, 3, 2), library, direct, direct},
      {shape(16, 512, 2048, 7, 1), library, library, product},
  };
  for (const ConvMachine& machine : {kAvx2, kAvx512, kBf16}) check(everywhere, DType::f32, machine);
  const std::vector<Case> avx512 = {
      {shape(128, 16, 16, 28, 3), winograd, winograd, library},
      {shape(128, 16, 32, 28, 1, 2), library, direct, direct},
      {shape(16, 64, 256, 56, 1), library, library, direct},
      {shape(16, 512, 512, 7, 3), winograd, winograd, library},
      {shape(1, 16, 16, 28, 3), winograd, winograd, library},
      {shape(32, 16, 32, 64, 3), winograd, winograd, winograd},
      {shape(16, 64, 128, 28, 1, 2), direct, direct, direct},
      {shape(16, 256, 512, 56, 1, 2), library, library, direct},
      {shape(16, 512, 512, 14, 3, 2), library, library, direct},
  };
  check(avx512, DType::f32, kAvx512);
  check(avx512, DType::f32, kBf16);
  const std::vector<Case> avx2 = {
      {shape(128, 16, 16, 28, 3), winograd, winograd, winograd},
      {shape(128, 16, 32, 28, 1, 2), direct, direct, product},
      {shape(16, 64, 256, 56, 1), library, library, library},
      {shape(16, 512, 512, 7, 3), winograd, winograd, direct},
      {shape(1, 16, 32, 28, 3, 2), library, library, direct},  // fewer images than threads
      {shape(16, 64, 128, 28, 1, 2), direct, direct, product},
      {shape(16, 256, 512, 56, 1, 2), library, direct, direct},
  };
  check(avx2, DType::f32, kAvx2);
}

TEST_CASE("the rule of 16 bits: widened or multiplied by own kernels, or multiplied by the library",
          "[conv_choice]") {
  const std::vector<Case> widened = {
      {shape(128, 16, 16, 28, 3), winograd, winograd, winograd},
      {shape(128, 32, 32, 14, 3), winograd, winograd, winograd},
      {shape(16, 64, 256, 56, 1), direct, direct, direct},
      {shape(128, 1, 16, 28, 3), direct, library, library},
      {shape(1, 64, 256, 56, 1), direct, direct, direct},        // pixels go to threads,
      {shape(1, 128, 128, 56, 3, 2), library, library, direct},  // whole images do
  };
  check(widened, DType::f16, kAvx2);
  check(widened, DType::f16, kBf16);
  check(widened, DType::bf16, kAvx512);
  const std::vector<Case> multiplied = {
      {shape(128, 1, 16, 28, 3), library, library, library},
      {shape(16, 1, 32, 32, 3, 2), library, library, library},
      {shape(32, 1, 16, 64, 3, 2), direct, library, library},
      {shape(32, 3, 16, 64, 3, 2), library, library, library},
      {shape(128, 16, 16, 28, 3), direct, direct, direct},
      {shape(128, 16, 32, 28, 3, 2), direct, direct, direct},
      {shape(128, 64, 64, 7, 3), library, library, direct},
      {shape(16, 128, 128, 56, 3, 2), library, direct, direct},
      {shape(16, 256, 1024, 14, 1), library, library, direct},
      {shape(16, 512, 2048, 7, 1), direct, direct, product},
  };
  check(multiplied, DType::bf16, kBf16);
  // Own kernels copy their input, so 1×1 kernels are the library's.
  const std::vector<Case> tiles = {
      {shape(128, 1, 16, 28, 3), direct, library, library},
      {shape(64, 1, 32, 32, 4, 2), library, library, library},
      {shape(32, 3, 16, 64, 3, 2), library, library, library},
      {shape(128, 16, 16, 28, 3), amx, amx, amx},
      {shape(128, 16, 32, 28, 3, 2), amx, amx, amx},
      {shape(128, 16, 32, 28, 1, 2), amx, amx, amx},
      {shape(128, 64, 64, 7, 3), amx, amx, amx},
      {shape(16, 128, 128, 56, 3, 2), library, amx, amx},
      {shape(16, 512, 512, 14, 3, 2), amx, amx, amx},
      {shape(16, 256, 512, 56, 1, 2), library, amx, amx},
      {shape(16, 256, 1024, 14, 1), library, library, amx},
      {shape(16, 512, 2048, 7, 1), library, library, product},
  };
  check(tiles, DType::bf16, kAmx);
  const std::vector<Case> parts = {
      {shape(128, 1, 16, 28, 3), direct, library, library}, {shape(128, 16, 16, 28, 3), amx, amx, amx},
      {shape(128, 16, 32, 28, 1, 2), amx, direct, direct},  {shape(16, 128, 128, 56, 3, 2), amx, amx, amx},
      {shape(16, 256, 1024, 14, 1), amx, amx, amx},         {shape(16, 512, 2048, 7, 1), amx, amx, amx},
  };
  check(parts, DType::f16, kAmx);
  const Convolution wide = shape(64, 512, 512, 14, 3);
  ConvMachine many = kAmx;
  many.threads = 28;
  CHECK(choice(Pass::filter_gradient, wide, DType::bf16, many).algorithm == amx);
  many.threads = 29;
  CHECK(choice(Pass::filter_gradient, wide, DType::bf16, many).algorithm == library);  // 261 MB of sums
}

TEST_CASE("the rule of depthwise convolutions", "[conv_choice]") {
  const auto of_channels = [](Index channels, Index side, Index kernel, Index stride = 1) {
    Convolution p = shape(8, channels, channels, side, kernel, stride);
    p.options.groups = channels;
    return p;
  };
  const std::vector<Case> wide = {
      {of_channels(16, 112, 3), library, library, library},
      {of_channels(72, 56, 3), library, library, depthwise},
      {of_channels(240, 28, 3, 2), depthwise, library, depthwise},
      {of_channels(72, 56, 5, 2), depthwise, library, depthwise},
      {of_channels(672, 20, 5), depthwise, depthwise, depthwise},
  };
  for (const ConvMachine& machine : {kAvx2, kAvx512, kBf16, kAmx}) {
    check(wide, DType::f32, machine);
    for (Case narrow : wide) {
      narrow.forward = narrow.input_gradient = narrow.filter_gradient = depthwise;
      check({narrow}, DType::f16, machine);
      check({narrow}, DType::bf16, machine);
    }
  }
  check({{of_channels(672, 20, 5), library, library, library}}, DType::f32, kOldest);
  Convolution doubled = of_channels(16, 14, 5);
  doubled.out_channels = 32;
  check({{doubled, library, library, library}}, DType::f16, kAvx2);
}

TEST_CASE("Winograd's filter gradients have sums that are small and added to often", "[conv_choice]") {
  const auto chosen = [](const Convolution& p, int threads) {
    return choice(Pass::filter_gradient, p, DType::f32, {Level::v3, false, threads}).algorithm;
  };
  CHECK(chosen(shape(16, 512, 512, 7, 3), 2) == direct);  // more pairs of channels than caches hold sums of
  CHECK(chosen(shape(16, 256, 512, 14, 3), 2) == winograd);
  CHECK(chosen(shape(64, 256, 512, 14, 3), 8) == winograd);
  CHECK(chosen(shape(64, 256, 512, 14, 3), 9) == direct);  // 72 MB of sums
  CHECK(chosen(shape(4, 256, 512, 7, 3), 2) == direct);    // 32 tiles each
  CHECK(chosen(shape(8, 256, 256, 14, 3), 2) == winograd);
}

TEST_CASE("f64, empty images and inexpressible descriptors use the generic path", "[conv_choice]") {
  const Convolution usual = shape(4, 16, 16, 8, 3);
  for (const Pass pass : {Pass::forward, Pass::input_gradient, Pass::filter_gradient}) {
    const auto wide = choose_convolution(pass, usual, {DType::f64, DType::f32, DType::f64}, false, kBf16);
    CHECK(wide.algorithm == generic);
    CHECK(wide.operands == DType::f64);
    CHECK(wide.result == DType::f64);
    CHECK(choice(pass, shape(0, 16, 16, 8, 3), DType::bf16, kBf16).algorithm == generic);
    CHECK(choice(pass, usual, DType::f32, kOldest).algorithm == library);
  }
}

TEST_CASE("operands and results of a choice", "[conv_choice]") {
  const Convolution usual = shape(128, 64, 64, 7, 3), pointwise = shape(16, 64, 256, 56, 1);
  // Mixed operands are widened; results narrower than that are cast.
  const auto mixed =
      choose_convolution(Pass::forward, usual, {DType::f16, DType::f32, DType::f16}, false, kBf16);
  CHECK(mixed.operands == DType::f32);
  CHECK(mixed.result == DType::f32);
  const auto narrow = choice(Pass::input_gradient, usual, DType::bf16, kBf16);
  CHECK(narrow.operands == DType::bf16);
  CHECK(narrow.result == DType::bf16);
  CHECK(choice(Pass::input_gradient, usual, DType::bf16, kBf16, true).result ==
        DType::f32);  // added before it is rounded
  CHECK(choice(Pass::filter_gradient, usual, DType::f16, kBf16).result == DType::f32);
  CHECK(choice(Pass::input_gradient, pointwise, DType::f32, kBf16, true).algorithm == product);
  CHECK(choice(Pass::input_gradient, pointwise, DType::f32, kBf16, false).algorithm == library);
}

TEST_CASE("a kernel that covers the image is a linear layer", "[conv_choice]") {
  Convolution p{.batch = 64,
                .height = 4,
                .width = 5,
                .channels = 128,
                .out_height = 1,
                .out_width = 1,
                .out_channels = 100,
                .kernel_height = 4,
                .kernel_width = 5,
                .options = {.stride = {2, 1}}};
  for (const Pass pass : {Pass::forward, Pass::input_gradient, Pass::filter_gradient}) {
    for (const ConvMachine& machine : {kOldest, kAvx2, kAvx512, kBf16, kAmx})
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
        for (const bool accumulate : {false, true})
          CHECK(choice(pass, p, dtype, machine, accumulate).algorithm == product);
    CHECK(choice(pass, p, DType::f64, kBf16).algorithm == generic);
    for (const auto& change : std::vector<std::function<void(Convolution&)>>{
             [](Convolution& c) {
               c.options.padding = {1, 0}, c.out_height = 2;
             },
             [](Convolution& c) { c.options.groups = 4; }, [](Convolution& c) { c.out_height = 2; },
             [](Convolution& c) { c.out_width = 2; }, [](Convolution& c) { c.height = 6, c.out_height = 2; },
             [](Convolution& c) { c.width = 6, c.out_width = 2; },
             [](Convolution& c) { c.height = c.width = c.kernel_height = c.kernel_width = 1; }}) {
      Convolution other = p;
      change(other);
      CHECK_FALSE(cpu::covers_image(other));
    }
  }
  CHECK(choice(Pass::forward, p, DType::bf16, kBf16).result == DType::bf16);
  CHECK(choice(Pass::forward, p, DType::bf16, kAvx2).result == DType::f32);
  CHECK(choice(Pass::input_gradient, p, DType::bf16, kBf16, true).result == DType::f32);
}
