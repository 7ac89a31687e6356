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
#include "core/options/family.h"

namespace tandem::optim {

// When an update leaves those rows of an embedding table alone that the step has not touched.
enum class Sparse : std::uint8_t {
  exact,  // where that gives the bits of the dense update: the rule rests (core/kernels/update.h), no decay
  lazy,   // whatever the rule: such a row keeps its moments and is not decayed, so the weights are others
  off,    // never
};

// Settings of the parameters whose name contains a match of `match` (an ECMAScript regular expression). A
// parameter takes the settings of every group that matches, in order: of two that set the same thing, the
// later one counts.
struct ParameterGroup {
  std::string match{};
  std::optional<double> weight_decay{};
  std::optional<double> lr_factor{};  // on the learning rate of the optimizer
  std::optional<bool> adapt{};        // LARS and LAMB: whether the trust ratio applies
  static const options::Schema& schema();
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
  Sparse sparse() const { return sparse_; }

 protected:
  // `options` is what `variant` describes. Throws UserError for what the description refuses, when there is
  // no parameter or one occurs twice, and when a group's expression matches no name.
  template <class Options>
  Optimizer(std::vector<Parameter> parameters, const options::Variant& variant, const Options& options,
            const UpdateRule& rule, std::array<Moment, 3> moments)
      : Optimizer(std::move(parameters), settings_of(variant, options), rule, std::move(moments)) {}

 private:
  struct Settings {
    const options::Variant& variant;
    std::optional<double> lr;
    double weight_decay;
    const std::vector<ParameterGroup>& groups;
    bool adapt_vectors = true;  // trust ratios for parameters of rank 0 and 1 too
    Sparse sparse = Sparse::exact;
  };
  template <class Options>
  static Settings settings_of(const options::Variant& variant, const Options& options) {
    options::require_sound(variant.name, variant.schema, &options);
    Settings settings{variant, options.lr, options.weight_decay, options.groups};
    if constexpr (requires { options.adapt_vectors; }) settings.adapt_vectors = options.adapt_vectors;
    if constexpr (requires { options.sparse; }) settings.sparse = options.sparse;
    return settings;
  }
  Optimizer(std::vector<Parameter> parameters, const Settings& settings, const UpdateRule& rule,
            std::array<Moment, 3> moments);
  void apply_group(const ParameterGroup& group);

  std::string name_;
  UpdateRule rule_;
  std::array<Moment, 3> moments_;
  std::vector<Entry> entries_;
  std::optional<double> lr_;
  double default_lr_;
  Sparse sparse_;
};

}  // namespace tandem::optim

template <>
struct tandem::options::Words<tandem::optim::Sparse> {
  static constexpr std::array values{"exact", "lazy", "off"};
};
