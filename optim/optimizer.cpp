#include "optim/optimizer.h"

#include <cmath>

#include "core/error.h"
#include "core/pattern.h"
#include "core/suggest.h"
#include "optim/names.h"

namespace tandem::optim {

void check_option(const std::string& where, const char* key, double value, Bounds bounds) {
  const bool inside = value >= bounds.low && (bounds.closed ? value <= bounds.high : value < bounds.high);
  require(inside, where, "{} must lie in [{}, {}{}, is {}", key, bounds.low, bounds.high,
          bounds.closed ? "]" : ")", value);
}

void check_at_least(const std::string& where, const char* key, double value, double low) {
  require(std::isfinite(value) && value >= low, where, "{} must be at least {}, is {}", key, low, value);
}

Optimizer::Optimizer(std::vector<Parameter> parameters, const Settings& settings, const UpdateRule& rule,
                     std::array<Moment, 3> moments)
    : name_(settings.name),
      rule_(rule),
      moments_(std::move(moments)),
      lr_(settings.lr),
      default_lr_(settings.default_lr) {
  require(!parameters.empty(), name_, "there are no parameters to train");
  if (lr_) check_at_least(name_, "lr", *lr_);
  check_at_least(name_, "weight_decay", settings.weight_decay);
  entries_.reserve(parameters.size());
  for (Parameter& parameter : parameters) {
    for (const Entry& other : entries_)
      require(!(other.parameter == parameter), name_, "parameter {} is given twice", parameter.name());
    const bool adapt = settings.adapt_vectors || parameter.value().rank() > 1;
    entries_.push_back({std::move(parameter), 1.0, settings.weight_decay, adapt});
  }
  if (settings.groups) {
    for (const ParameterGroup& group : *settings.groups) apply_group(group);
  }
}

void Optimizer::apply_group(const ParameterGroup& group) {
  if (group.weight_decay) check_at_least(name_, "a group's weight_decay", *group.weight_decay);
  if (group.lr_factor) check_at_least(name_, "a group's lr_factor", *group.lr_factor);
  std::regex expression;
  try {
    expression = compile_pattern(group.match);
  } catch (const UserError& error) {
    throw UserError(name_, fmt::format("group: {}", error.what()));
  }
  bool matched = false;
  for (Entry& entry : entries_) {
    if (!std::regex_search(entry.parameter.name(), expression)) continue;
    matched = true;
    entry.weight_decay = group.weight_decay.value_or(entry.weight_decay);
    entry.lr_factor = group.lr_factor.value_or(entry.lr_factor);
    entry.adapt = group.adapt.value_or(entry.adapt);
  }
  if (matched) return;
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.parameter.name());
  throw UserError(name_, fmt::format("group \"{}\" matches none of {} parameters ({}){}", group.match,
                                     names.size(), listed(names), did_you_mean(group.match, names)));
}

}  // namespace tandem::optim
