// Optimizer: parameters, their groups, and the rule that updates them. It holds no state: it declares the
// tensors that it keeps of each parameter, and optim/step.h owns them.
//
// A rule sees f32 gradients that are already unscaled, averaged and clipped, and f32 masters. An elementwise
// rule (core/kernels/update.h) is one pass over all parameters; any other overrides `update`
// (optim/update_context.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/leaf.h"
#include "core/options/registry.h"

namespace tandem {
class UpdateRule;  // core/kernels/update.h
}

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
  std::optional<bool> adapt{};        // see Optimizer::Entry
  static const options::Schema& schema();
};

// An f32 tensor that an optimizer keeps of a parameter from step to step.
struct StateTensor {
  std::string name;  // "momentum": "moment.momentum." before the parameter's name in the state of a step
  Shape shape;
  double initial = 0.0;
};

// A moment of an elementwise rule: a state tensor in the shape of the parameter.
struct Moment {
  std::string name;
  double initial = 0.0;
};

class UpdateContext;  // optim/update_context.h
class UpdatedParameter;

class Optimizer {
 public:
  struct Entry {
    Parameter parameter;
    double lr_factor = 1.0;
    double weight_decay = 0.0;
    // Whether what a rule does with a whole parameter applies: the trust ratio of LARS and LAMB, Muon's
    // orthogonal update.
    bool adapt = true;
  };

  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // What is kept of a parameter, in the order in which an elementwise rule takes its moments: those in the
  // shape of the parameter.
  virtual std::vector<StateTensor> state_of(const Entry& entry) const;
  // Updates the parameters of `context` in one step: with rule() in one pass. What it throws ends the step.
  virtual void update(UpdateContext& context) const;

  const std::string& name() const { return name_; }  // "adamw"
  // nullptr where `update` is the optimizer's own.
  const UpdateRule* rule() const { return rule_.get(); }
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
            const UpdateRule& rule, std::vector<Moment> moments)
      : Optimizer(std::move(parameters), settings_of(variant, options), &rule, std::move(moments)) {}
  // Of a class that overrides state_of and update.
  template <class Options>
  Optimizer(std::vector<Parameter> parameters, const options::Variant& variant, const Options& options)
      : Optimizer(std::move(parameters), settings_of(variant, options), nullptr, {}) {}

  std::vector<Entry> entries_;

 private:
  struct Settings {
    const options::Variant& variant;
    std::optional<double> lr;
    double weight_decay;
    const std::vector<ParameterGroup>& groups;
    // Entry::adapt of parameters of rank 0 and 1, and of embedding tables.
    bool adapt_vectors = true, adapt_tables = true;
    Sparse sparse = Sparse::exact;
  };
  template <class Options>
  static Settings settings_of(const options::Variant& variant, const Options& options) {
    options::require_sound(variant.name, variant.schema, &options);
    Settings settings{variant, options.lr, options.weight_decay, options.groups};
    if constexpr (requires { options.adapt_vectors; }) settings.adapt_vectors = options.adapt_vectors;
    if constexpr (requires { options.adapt_tables; }) settings.adapt_tables = options.adapt_tables;
    if constexpr (requires { options.sparse; }) settings.sparse = options.sparse;
    return settings;
  }
  Optimizer(std::vector<Parameter> parameters, const Settings& settings, const UpdateRule* rule,
            std::vector<Moment> moments);
  void apply_group(const ParameterGroup& group);

  std::string name_;
  std::shared_ptr<const UpdateRule> rule_;
  std::vector<Moment> moments_;
  std::optional<double> lr_;
  double default_lr_;
  Sparse sparse_;
};

// Optimizers by name (optim/registry.h).
using OptimizerRegistry = options::Registry<std::unique_ptr<Optimizer>(std::vector<Parameter>)>;

}  // namespace tandem::optim

template <>
struct tandem::options::EnumNames<tandem::optim::Sparse> {
  static constexpr std::array values{"exact", "lazy", "off"};
};
