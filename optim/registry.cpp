#include "optim/registry.h"

namespace tandem::optim {

namespace {
template <class... Rules>
std::vector<OptimizerFamily::Entry> entries_of(update_rules::RuleList<Rules...>) {
  return {entry_of(OptimizerOf<Rules>{})...};
}
}  // namespace

const OptimizerFamily& optimizers() {
  static const OptimizerFamily family({.what = "optimizer", .help = "update rule", .fallback = "sgd"},
                                      entries_of(UpdateRules{}));
  return family;
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, std::vector<Parameter> parameters,
                                          const options::Given& given) {
  return optimizers().make(name, given, std::move(parameters));
}

double learning_rate(const options::Chosen& optimizer) { return optimizer.value("lr").number; }

}  // namespace tandem::optim
