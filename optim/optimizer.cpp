#include "optim/optimizer.h"

#include "core/error.h"
#include "core/kernels/update_rules.h"
#include "core/names.h"
#include "core/pattern.h"
#include "core/suggest.h"
#include "optim/update_context.h"

namespace tandem::optim {

const options::Schema& ParameterGroup::schema() {
  static const options::Schema schema =
      options::Describe<ParameterGroup>()
          .key("match", &ParameterGroup::match,
               "regular expression searched in parameter names; a parameter takes the keys of every matching "
               "group, the last group winning",
               {.required = true})
          .key("lr_factor", &ParameterGroup::lr_factor, "factor on the learning rate",
               {.min = 0.0, .max = 1e6})
          .key("weight_decay", &ParameterGroup::weight_decay, "replaces the optimizer's",
               {.min = 0.0, .max = 1e6})
          .key("adapt", &ParameterGroup::adapt,
               "LARS and LAMB: apply the trust ratio; Muon: orthogonalise the update, not "
               "AdamW's")
          .rule("match", [](const ParameterGroup& group) -> std::string {
            try {
              compile_pattern(group.match);
            } catch (const UserError& error) {
              return error.what();
            }
            return "";
          });
  return schema;
}

Optimizer::Optimizer(std::vector<Parameter> parameters, const Settings& settings, const UpdateRule* rule,
                     std::vector<Moment> moments)
    : name_(settings.variant.name),
      rule_(rule ? std::make_shared<const UpdateRule>(*rule) : nullptr),
      moments_(std::move(moments)),
      lr_(settings.lr),
      default_lr_(settings.variant.schema.find("lr")->default_value.number),
      sparse_(settings.sparse) {
  require(!parameters.empty(), name_, "got no parameters to train");
  entries_.reserve(parameters.size());
  for (Parameter& parameter : parameters) {
    for (const Entry& other : entries_)
      require(!(other.parameter == parameter), name_, "parameter {} is given twice", parameter.name());
    const bool adapt =
        parameter.by_rows() ? settings.adapt_tables : settings.adapt_vectors || parameter.value().rank() > 1;
    entries_.push_back({std::move(parameter), 1.0, settings.weight_decay, adapt});
  }
  for (const ParameterGroup& group : settings.groups) apply_group(group);
}

std::vector<StateTensor> Optimizer::state_of(const Entry& entry) const {
  std::vector<StateTensor> state;
  for (const Moment& moment : moments_)
    state.push_back({moment.name, entry.parameter.value().shape(), moment.initial});
  return state;
}

void Optimizer::update(UpdateContext& context) const {
  ensure(rule_ != nullptr, name_, "an optimizer without an elementwise rule overrides `update`");
  context.update(*rule_);
}

void Optimizer::apply_group(const ParameterGroup& group) {
  const std::regex expression = compile_pattern(group.match);
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
