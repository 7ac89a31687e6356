#include "nn/layers/activation.h"

#include "core/error.h"
#include "nn/init.h"

namespace tandem::nn {

std::string LeakyRelu::describe() const { return fmt::format("LeakyRelu({})", negative_slope_); }

std::string Elu::describe() const { return fmt::format("Elu({})", alpha_); }

std::string Softplus::describe() const {
  return fmt::format("Softplus({}, threshold {})", beta_, threshold_);
}

Prelu::Prelu(Index channels, double start) {
  require(channels > 0, "prelu", "channels must be positive, got {}", channels);
  slope_ = add_parameter("weight", constant_parameter({channels}, start));
}

std::string Prelu::describe() const { return fmt::format("Prelu({})", slope_.value().numel()); }

std::string Softmax::describe() const { return fmt::format("Softmax(axis {})", axis_); }

std::string LogSoftmax::describe() const { return fmt::format("LogSoftmax(axis {})", axis_); }

}  // namespace tandem::nn
