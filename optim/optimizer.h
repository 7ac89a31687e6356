// Optimizer: parameters, their groups, and their update rule. It declares the state tensors of each
// parameter; optim/step.h owns them.
//
// A rule receives unscaled, averaged and clipped f32 gradients, and f32 masters. An elementwise rule
// (core/kernels/update_rules.h) is one pass over all parameters; other optimizers override `update`
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
class UpdateRule;  // core/kernels/update_rules.h
}

namespace tandem::optim {

// Sparse updates of embedding tables: when rows without a gradient in the step are skipped.
enum class Sparse : std::uint8_t {
  exact,  // where the result equals the dense update bit for bit: zero_grad_is_noop() and no decay
  lazy,   // with any rule: skipped rows keep moments and are not decayed, so weights differ from dense
  off,    // never
};

// Settings of the parameters whose name contains a match of `match` (an ECMAScript regular expression). A
// parameter takes the settings of every matching group, in order; the last group wins.
struct ParameterGroup {
  std::string match{};
  std::optional<double> weight_decay{};
  std::optional<double> lr_factor{};  // on the optimizer's learning rate
  std::optional<bool> adapt{};        // see Optimizer::Entry
  static const options::Schema& schema();
};

// An f32 tensor that an optimizer keeps for each parameter across steps.
struct StateTensor {
  std::string name;  // "momentum" is saved as "moment.momentum." + the parameter's name
  Shape shape;
  double initial = 0.0;
};

// A moment of an elementwise rule: a state tensor with the parameter's shape.
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
    // Whether the per-tensor part of a rule applies: the trust ratio of LARS and LAMB, Muon's
    // orthogonalisation.
    bool adapt = true;
  };

  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // State tensors of a parameter. An elementwise rule takes as moments, in order, those with the parameter's
  // shape.
  virtual std::vector<StateTensor> state_of(const Entry& entry) const;
  // Updates the parameters of `context` in one step; the default applies rule() in one pass. An exception
  // ends the step.
  virtual void update(UpdateContext& context) const;

  const std::string& name() const { return name_; }  // "adamw"
  // nullptr for an optimizer that overrides `update`.
  const UpdateRule* rule() const { return rule_.get(); }
  std::span<const Entry> entries() const { return entries_; }
  // The requested learning rate, and the rule's default.
  const std::optional<double>& lr() const { return lr_; }
  double default_lr() const { return default_lr_; }
  Sparse sparse() const { return sparse_; }

 protected:
  // `options`: described by `variant`. Throws UserError for options that the description refuses, for no or
  // repeated parameters, and for a group that matches no name.
  template <class Options>
  Optimizer(std::vector<Parameter> parameters, const options::Variant& variant, const Options& options,
            const UpdateRule& rule, std::vector<Moment> moments)
      : Optimizer(std::move(parameters), settings_of(variant, options), &rule, std::move(moments)) {}
  // For classes that override state_of and update.
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
    // Defaults of Entry::adapt for parameters of rank 0 and 1, and for embedding tables.
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
