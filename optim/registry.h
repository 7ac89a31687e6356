// Optimizers by name, for configurations and listings.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "optim/optimizer.h"

namespace tandem::optim {

// What a configuration may say; each optimizer takes some of it, and has its own default for the rest.
struct OptimizerOptions {
  std::optional<double> lr{};
  std::optional<double> weight_decay{};
  std::optional<double> momentum{};
  std::optional<double> dampening{};
  std::optional<bool> nesterov{};
  std::optional<double> beta1{}, beta2{};
  std::optional<double> eps{};
  std::optional<bool> amsgrad{};
  std::optional<double> alpha{};
  std::optional<bool> centered{};
  std::optional<double> lr_decay{};
  std::optional<double> initial_accumulator{};
  std::optional<double> trust_coefficient{};
  std::optional<bool> adapt_vectors{};
  std::vector<ParameterGroup> groups{};
};

struct OptimizerInfo {
  std::string name{};
  std::string summary{};
  std::vector<std::string>
      options;  // names of members of OptimizerOptions; lr, weight_decay, groups go without saying
};

const std::vector<OptimizerInfo>& optimizers();

// Throws UserError for an unknown name (with the nearest), an option the optimizer does not take, a value out
// of range.
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, std::vector<Parameter> parameters,
                                          const OptimizerOptions& options = {});

}  // namespace tandem::optim
