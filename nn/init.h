// Initialisers, which fill an f32 (or f64) tensor in place.
//
// Random ones are keyed by (seed of the active RandomScope, purpose initialisation, call), where call counts
// the random draws in the scope: the same model built in a RandomScope of the same seed has the same weights
// for any number of threads. Layouts of weights are those of autograd/ops: linear [O,I], filters
// [O,KH,KW,I/groups], transposed filters [I,KH,KW,O/groups], sequence filters [O,K,I/groups].
#pragma once

#include <string>

#include "autograd/leaf.h"

namespace tandem::nn {

// fan_in: elements per slice of axis 0; fan_out: elements per slice of the last axis. As in PyTorch, "in" and
// "out" of a transposed filter are those of its adjoint convolution.
struct Fans {
  Index in = 0, out = 0;
};
// Throws UserError for a tensor with less than two axes.
Fans fans_of(const Shape& weight);

enum class FanMode : std::uint8_t { in, out };

// Gain of a nonlinearity, as PyTorch's calculate_gain: "linear", "sigmoid", "tanh", "relu", "leaky_relu",
// "selu". Throws UserError for another name.
double gain_of(const std::string& nonlinearity, double negative_slope = 0.01);

namespace init {

void constant(const Tensor& weight, double value);
inline void zeros(const Tensor& weight) { constant(weight, 0.0); }
inline void ones(const Tensor& weight) { constant(weight, 1.0); }
// In [low, high).
void uniform(const Tensor& weight, double low, double high);
void normal(const Tensor& weight, double mean = 0.0, double stddev = 1.0);
// A normal distribution truncated to [low, high] (absolute bounds), by inversion of its distribution
// function. Throws UserError unless low < high and the interval has some mass.
void truncated_normal(const Tensor& weight, double mean = 0.0, double stddev = 1.0, double low = -2.0,
                      double high = 2.0);

// He et al. 2015: variance gain²/fan.
void kaiming_uniform(const Tensor& weight, FanMode mode = FanMode::in, double gain = 1.4142135623730951);
void kaiming_normal(const Tensor& weight, FanMode mode = FanMode::in, double gain = 1.4142135623730951);
// Glorot and Bengio 2010: variance gain²·2/(fan_in + fan_out).
void xavier_uniform(const Tensor& weight, double gain = 1.0);
void xavier_normal(const Tensor& weight, double gain = 1.0);

// Saxe et al. 2013: the weight as a matrix [axis 0, rest] gets orthonormal rows (or columns, if fewer), times
// gain, uniformly distributed: Q of the QR decomposition of a normal matrix, with the signs of R's diagonal.
void orthogonal(const Tensor& weight, double gain = 1.0);

// Defaults of PyTorch's linear and convolution layers: weight and bias uniform in ±1/√fan_in of the weight.
void default_weight(const Tensor& weight);
void default_bias(const Tensor& bias, const Shape& weight);

}  // namespace init

// Initialiser as a value, for layer options.
enum class WeightInit : std::uint8_t {
  standard,  // PyTorch's default: uniform in ±1/√fan_in
  kaiming_uniform,
  kaiming_normal,
  kaiming_normal_fan_out,
  xavier_uniform,
  xavier_normal,
  orthogonal,
  truncated_normal,  // standard deviation 0.02, truncated at two deviations
  zeros,
};

// "standard", "kaiming_uniform", …
inline constexpr int kWeightInitCount = 9;
const char* name_of(WeightInit init);

void initialise(const Tensor& weight, WeightInit init);

// New f32 memory for a parameter, on the device for modules (nn/device.h).
Tensor parameter_memory(const Shape& shape);
// New parameters: with one value, a weight, and the bias of a weight, which starts at 0 unless `init` is
// standard.
Parameter constant_parameter(const Shape& shape, double value);
Parameter new_weight(const Shape& shape, WeightInit init, ParameterLayout layout = ParameterLayout::plain);
Parameter new_bias(Index features, const Shape& weight, WeightInit init);

}  // namespace tandem::nn
