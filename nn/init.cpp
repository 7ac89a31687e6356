// GCC 12 reports undefined vector halves in its own AVX-512 headers as uninitialised variables (GCC PR
// 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "nn/init.h"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <unsupported/Eigen/SpecialFunctions>

#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/random.h"
#include "core/shapes_backend.h"
#include "nn/device.h"

namespace tandem::nn {

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

void written(const Tensor& weight) { weight.storage()->bump_version(); }

// Φ, the cumulative distribution function of the standard normal distribution.
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Copies host values to a tensor on any device.
void assign(const Tensor& weight, const std::vector<double>& values) {
  const Tensor host = Tensor::from(values, weight.shape());
  Tensor same = Tensor::empty(weight.shape(), {.dtype = weight.dtype()});
  backend_for(Device{}).cast(host, same);
  backend_for(weight.device()).copy_bytes(same, weight);
  written(weight);
}

}  // namespace

Fans fans_of(const Shape& weight) {
  require(weight.rank() >= 2, "init", "fans need a weight of at least two axes, got {}", to_string(weight));
  return {weight.product(1, weight.rank()), weight.product(0, weight.rank() - 1)};
}

double gain_of(const std::string& nonlinearity, double negative_slope) {
  if (nonlinearity == "linear" || nonlinearity == "sigmoid") return 1.0;
  if (nonlinearity == "tanh") return 5.0 / 3.0;
  if (nonlinearity == "relu") return std::sqrt(2.0);
  if (nonlinearity == "leaky_relu") return std::sqrt(2.0 / (1.0 + negative_slope * negative_slope));
  if (nonlinearity == "selu") return 0.75;
  throw UserError("init", fmt::format("unknown nonlinearity \"{}\"; known are linear, sigmoid, tanh, relu, "
                                      "leaky_relu, selu",
                                      nonlinearity));
}

namespace init {

void constant(const Tensor& weight, double value) {
  backend_for(weight.device()).fill(weight, value);
  written(weight);
}

void uniform(const Tensor& weight, double low, double high) {
  require(low <= high, "init", "uniform needs low <= high, got {} and {}", low, high);
  backend_for(weight.device())
      .random()
      .random_uniform(next_random_key(RandomPurpose::initialisation), weight, low, high);
  written(weight);
}

void normal(const Tensor& weight, double mean, double stddev) {
  require(stddev >= 0.0, "init", "a standard deviation must not be negative, got {}", stddev);
  backend_for(weight.device())
      .random()
      .random_normal(next_random_key(RandomPurpose::initialisation), weight, mean, stddev);
  written(weight);
}

void truncated_normal(const Tensor& weight, double mean, double stddev, double low, double high) {
  require(stddev > 0.0 && low < high, "init",
          "truncated_normal needs a positive standard deviation and low < high, got {} and [{}, {}]", stddev,
          low, high);
  const double below = normal_cdf((low - mean) / stddev);
  const double above = normal_cdf((high - mean) / stddev);
  require(above - below > 1e-12, "init",
          "[{}, {}] has no mass of a normal distribution with mean {} and deviation {}", low, high, mean,
          stddev);
  const RandomKey key = next_random_key(RandomPurpose::initialisation);
  if (weight.device() == kShapes) return;
  std::vector<double> values(static_cast<std::size_t>(weight.numel()));
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 4 == 0) words = philox(key, static_cast<std::uint32_t>(i / 4));
    const double u = below + (above - below) * ((words[i % 4] + 0.5) * 0x1p-32);
    values[i] = std::clamp(mean + stddev * Eigen::numext::ndtri(u), low, high);
  }
  assign(weight, values);
}

void kaiming_uniform(const Tensor& weight, FanMode mode, double gain) {
  const Fans fans = fans_of(weight.shape());
  const auto fan = static_cast<double>(std::max<Index>(1, mode == FanMode::in ? fans.in : fans.out));
  const double bound = gain * std::sqrt(3.0 / fan);
  uniform(weight, -bound, bound);
}

void kaiming_normal(const Tensor& weight, FanMode mode, double gain) {
  const Fans fans = fans_of(weight.shape());
  const auto fan = static_cast<double>(std::max<Index>(1, mode == FanMode::in ? fans.in : fans.out));
  normal(weight, 0.0, gain / std::sqrt(fan));
}

void xavier_uniform(const Tensor& weight, double gain) {
  const Fans fans = fans_of(weight.shape());
  const double bound = gain * std::sqrt(6.0 / static_cast<double>(std::max<Index>(1, fans.in + fans.out)));
  uniform(weight, -bound, bound);
}

void xavier_normal(const Tensor& weight, double gain) {
  const Fans fans = fans_of(weight.shape());
  normal(weight, 0.0, gain * std::sqrt(2.0 / static_cast<double>(std::max<Index>(1, fans.in + fans.out))));
}

void orthogonal(const Tensor& weight, double gain) {
  require(weight.rank() >= 2, "init", "orthogonal needs at least two axes, got {}",
          to_string(weight.shape()));
  const Index rows = weight.size(0);
  const Index columns = rows == 0 ? 0 : weight.numel() / rows;
  if (weight.numel() == 0 || weight.device() == kShapes) return;
  const Index tall = std::max(rows, columns);
  const Index thin = std::min(rows, columns);

  const Tensor random = Tensor::empty({tall, thin}, {.dtype = DType::f64});
  backend_for(Device{}).random().random_normal(next_random_key(RandomPurpose::initialisation), random, 0.0,
                                               1.0);
  const Matrix normal_matrix = Eigen::Map<const Matrix>(random.data<double>(), tall, thin);
  const Eigen::HouseholderQR<Matrix> qr(normal_matrix);
  Matrix q = qr.householderQ() * Matrix::Identity(tall, thin);
  // Without these signs Q would not be uniformly distributed (Mezzadri 2007).
  for (Index j = 0; j < thin; ++j) {
    if (qr.matrixQR()(j, j) < 0.0) q.col(j) = -q.col(j);
  }
  std::vector<double> values(static_cast<std::size_t>(weight.numel()));
  Eigen::Map<Matrix> result(values.data(), rows, columns);
  if (rows < columns) {
    result = gain * q.transpose();
  } else {
    result = gain * q;
  }
  assign(weight, values);
}

void default_weight(const Tensor& weight) { kaiming_uniform(weight, FanMode::in, std::sqrt(1.0 / 3.0)); }

void default_bias(const Tensor& bias, const Shape& weight) {
  const Index fan_in = fans_of(weight).in;
  const double bound = fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(fan_in)) : 0.0;
  uniform(bias, -bound, bound);
}

}  // namespace init

const char* name_of(WeightInit init) {
  constexpr const char* names[kWeightInitCount] = {
      "standard",       "kaiming_uniform", "kaiming_normal", "kaiming_normal_fan_out",
      "xavier_uniform", "xavier_normal",   "orthogonal",     "truncated_normal",
      "zeros"};
  return names[static_cast<int>(init)];
}

void initialise(const Tensor& weight, WeightInit choice) {
  switch (choice) {
    case WeightInit::standard:
      return init::default_weight(weight);
    case WeightInit::kaiming_uniform:
      return init::kaiming_uniform(weight);
    case WeightInit::kaiming_normal:
      return init::kaiming_normal(weight);
    case WeightInit::kaiming_normal_fan_out:
      return init::kaiming_normal(weight, FanMode::out);
    case WeightInit::xavier_uniform:
      return init::xavier_uniform(weight);
    case WeightInit::xavier_normal:
      return init::xavier_normal(weight);
    case WeightInit::orthogonal:
      return init::orthogonal(weight);
    case WeightInit::truncated_normal:
      return init::truncated_normal(weight, 0.0, 0.02, -0.04, 0.04);
    case WeightInit::zeros:
      return init::zeros(weight);
  }
}

Tensor parameter_memory(const Shape& shape) {
  return Tensor::empty(shape,
                       {.dtype = DType::f32, .device = BuildDevice::current(), .kind = MemoryKind::masters});
}

Parameter constant_parameter(const Shape& shape, double value) {
  const Tensor memory = parameter_memory(shape);
  init::constant(memory, value);
  return Parameter(memory);
}

Parameter new_weight(const Shape& shape, WeightInit init, ParameterLayout layout) {
  const Tensor weight = parameter_memory(shape);
  initialise(weight, init);
  return Parameter(weight, layout);
}

Parameter new_bias(Index features, const Shape& weight, WeightInit init) {
  if (init != WeightInit::standard) return constant_parameter({features}, 0.0);
  const Tensor bias = parameter_memory({features});
  init::default_bias(bias, weight);
  return Parameter(bias);
}

}  // namespace tandem::nn
