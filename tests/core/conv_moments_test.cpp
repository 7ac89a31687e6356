// Σ y and Σ y² that Tandem's convolutions return with their output, and batch norm's use of them.
#include <catch2/catch.hpp>

#include "bench/conv_shapes.h"
#include "core/convert.h"
#include "core/cpu/conv_probe.h"
#include "core/kernels/conv.h"
#include "core/kernels/norm.h"
#include "tests/core/kernel_testing.h"

using namespace tandem;
using cpu::ConvAlgorithm;
using cpu::ForcedConvolution;
using cpu::onednn::Convolution;
using cpu::onednn::Pass;

namespace {

struct Result {
  Tensor y, sums;
};

// Values about one to two times `mean`, from channel to channel, with a deviation of a few.
Result computed(const Convolution& p, DType dtype, ConvAlgorithm algorithm, double mean) {
  const Tensor x = normal_tensor({p.batch, p.height, p.width, p.channels}, dtype, 1);
  const Tensor filter = Tensor::empty({p.out_channels, p.kernel_height, p.kernel_width, p.channels}, {dtype});
  const Tensor y = Tensor::empty({p.batch, p.out_height, p.out_width, p.out_channels}, {dtype});
  const auto inputs = static_cast<double>(filter.numel() / p.out_channels);
  visit_floating(dtype, [&]<class S>(TypeTag<S>) {
    for (Index i = 0; i < x.numel(); ++i)
      x.data<S>()[i] = convert<S>(convert<double>(x.data<S>()[i]) + mean / inputs * 9.0);
    for (Index o = 0; o < p.out_channels; ++o) {
      const double weight = (1.0 + static_cast<double>(o) / static_cast<double>(p.out_channels)) / 9.0;
      std::fill_n(filter.data<S>() + o * filter.numel() / p.out_channels, filter.numel() / p.out_channels,
                  convert<S>(weight));
    }
  });
  const ForcedConvolution forced(algorithm);
  return {y, cpu::backend().conv().conv2d_with_sums(x, filter, y, p.options)};
}

struct Moments {
  double mean, variance;
};

std::vector<Moments> moments_of(const Tensor& y) {
  const Index channels = y.size(-1), rows = y.numel() / channels;
  const std::vector<double> values = y.to_vector<double>();
  std::vector<Moments> result;
  for (Index c = 0; c < channels; ++c) {
    double sum = 0.0, deviation = 0.0;
    for (Index r = 0; r < rows; ++r) sum += values[r * channels + c];
    const double mean = sum / rows;
    for (Index r = 0; r < rows; ++r) {
      const double d = values[r * channels + c] - mean;
      deviation += d * d;
    }
    result.push_back({mean, deviation / rows});
  }
  return result;
}

bool has_own_kernels() { return cpu::level() >= cpu::Level::v3; }

}  // namespace

TEST_CASE("convolutions give the sums of what they write", "[conv][conv_moments]") {
  if (!has_own_kernels()) return;
  for (const auto& [shape, algorithm] : {std::pair{"16>16@64b32", ConvAlgorithm::winograd},
                                         {"32>48@37b40", ConvAlgorithm::winograd},
                                         {"16>32@64s2b64", ConvAlgorithm::direct},
                                         {"16>16@37b100", ConvAlgorithm::direct},
                                         {"32>64@57k1b20", ConvAlgorithm::direct}}) {
    const Convolution p = bench::parse_convolution(shape);
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      // bf16 has no digits left for values about a large mean.
      for (const double mean : {0.0, dtype == DType::bf16 ? 8.0 : 200.0}) {
        INFO(shape << " in " << name_of(dtype) << " by " << name_of(algorithm) << " about " << mean);
        const auto [y, sums] = computed(p, dtype, algorithm, mean);
        REQUIRE(sums.defined());
        REQUIRE(sums.dtype() == DType::f64);
        const std::vector<double> given = sums.to_vector<double>();
        const auto expected = moments_of(y);
        const double n = static_cast<double>(y.numel() / p.out_channels);
        double worst_mean = 0.0, worst_variance = 0.0;
        for (std::size_t c = 0; c < expected.size(); ++c) {
          const double average = given[c] / n, variance = given[expected.size() + c] / n - average * average;
          worst_mean =
              std::max(worst_mean, std::abs(average - expected[c].mean) / std::sqrt(expected[c].variance));
          worst_variance =
              std::max(worst_variance, std::abs(variance - expected[c].variance) / expected[c].variance);
        }
        CHECK(worst_mean < 1e-6);
        CHECK(worst_variance < 1e-6);
      }
    }
  }
}

TEST_CASE("a small result, and the library's, has no sums", "[conv][conv_moments]") {
  if (!has_own_kernels()) return;
  const Convolution small = bench::parse_convolution("16>16@28b4"),
                    large = bench::parse_convolution("16>16@64b32");
  CHECK_FALSE(computed(small, DType::f32, ConvAlgorithm::winograd, 0.0).sums.defined());
  CHECK_FALSE(computed(large, DType::f32, ConvAlgorithm::library, 0.0).sums.defined());
}

TEST_CASE("batch norm with a convolution's sums is batch norm", "[conv][conv_moments]") {
  if (!has_own_kernels()) return;
  const Convolution p = bench::parse_convolution("32>48@37b40");
  const auto [y, sums] = computed(p, DType::f32, ConvAlgorithm::winograd, 100.0);
  REQUIRE(sums.defined());
  const auto normalised = [&](const Tensor& given) {
    const Index channels = p.out_channels;
    BatchNormForward args;
    args.x = y;
    args.y = Tensor::empty(y.shape(), {});
    args.mean = Tensor::empty({channels}, {});
    args.rstd = Tensor::empty({channels}, {});
    args.sums = given;
    cpu::backend().norm().batch_norm_train(args);
    return std::array{args.mean.to_vector<double>(), args.rstd.to_vector<double>(),
                      args.y.to_vector<double>()};
  };
  const auto with = normalised(sums), without = normalised({});
  for (std::size_t i = 0; i < with.size(); ++i) CHECK(normalised_error(with[i], without[i]) < 1e-6);
}
