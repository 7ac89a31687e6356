// Optimizer: parameters, their groups, and the description of an update rule. It holds no state and does no
// arithmetic: optim/step.h owns the buffers, and core/kernels/update.h has the formulas.
//
// Rules see f32 gradients that are already unscaled, averaged and clipped, and f32 masters.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/leaf.h"
#include "core/kernels/update.h"

namespace tandem::optim {

// Settings of the parameters whose name contains a match of `match` (an ECMAScript regular expression). A
// parameter takes the settings of every group that matches, in order: of two that set the same thing, the
// later one counts.
struct ParameterGroup {
  std::string match{};
  std::optional<double> weight_decay{};
  std::optional<double> lr_factor{};  // on the learning rate of the optimizer
  std::optional<bool> adapt{};        // LARS and LAMB: whether the trust ratio applies
};

// A moment that a rule keeps for every element.
struct Moment {
  std::string name{};  // as in the state of a step; "" where the rule does not use this buffer
  double initial = 0.0;
};

class Optimizer {
 public:
  struct Entry {
    Parameter parameter;
    double lr_factor = 1.0;
    double weight_decay = 0.0;
    bool adapt = true;
  };

  virtual ~Optimizer() = default;
  // A copy as the base class keeps everything there is.
  Optimizer(const Optimizer&) = default;
  Optimizer& operator=(const Optimizer&) = default;

  const std::string& name() const { return name_; }  // "adamw"
  const UpdateRule& rule() const { return rule_; }
  const std::array<Moment, 3>& moments() const { return moments_; }  // for UpdateBuffers::moment1…3
  std::span<const Entry> entries() const { return entries_; }
  // The learning rate that was asked for, and the rule's default.
  const std::optional<double>& lr() const { return lr_; }
  double default_lr() const { return default_lr_; }

 protected:
  struct Settings {
    std::string name;
    std::optional<double> lr;
    double default_lr = 1e-3;
    double weight_decay = 0.0;
    bool adapt_vectors = true;  // trust ratios for parameters of rank 0 and 1 too
    const std::vector<ParameterGroup>* groups = nullptr;
  };

  // Throws UserError when there is no parameter, one occurs twice, a number is out of range, or a group's
  // expression is invalid or matches no name.
  Optimizer(std::vector<Parameter> parameters, const Settings& settings, const UpdateRule& rule,
            std::array<Moment, 3> moments);

 private:
  void apply_group(const ParameterGroup& group);

  std::string name_;
  UpdateRule rule_;
  std::array<Moment, 3> moments_;
  std::vector<Entry> entries_;
  std::optional<double> lr_;
  double default_lr_;
};

// Throws UserError "[where] key must be …, is …" unless low <= value < high (or <= high where `closed`).
struct Bounds {
  double low = 0.0;
  double high = 1.0;
  bool closed = false;
};
void check_option(const std::string& where, const char* key, double value, Bounds bounds);
// The same for low <= value, finite.
void check_at_least(const std::string& where, const char* key, double value, double low = 0.0);

}  // namespace tandem::optim
