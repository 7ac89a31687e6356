#include "optim/registry.h"

#include "optim/all_optimizers.h"

namespace tandem::optim {

namespace {

template <class... Optimizers>
std::vector<OptimizerRegistry::Entry> entries_of(TypeList<Optimizers...>) {
  return {Optimizers::entry()...};
}

struct AddedOptimizers {
  std::vector<OptimizerRegistry::Entry> entries = entries_of(AllOptimizers{});
  bool asked_for = false;
};

AddedOptimizers& known() {
  static AddedOptimizers known;
  return known;
}

}  // namespace

const OptimizerRegistry& optimizers() {
  known().asked_for = true;
  static const OptimizerRegistry family({.what = "optimizer", .help = "update rule", .fallback = "sgd"},
                                        known().entries);
  return family;
}

void add_optimizer(OptimizerRegistry::Entry entry) {
  ensure(!known().asked_for, "optimizer", "add_optimizer(\"{}\") after the first use of optimizers()",
         entry.name);
  known().entries.push_back(std::move(entry));
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, std::vector<Parameter> parameters,
                                          const options::Given& given) {
  return optimizers().make(name, given, std::move(parameters));
}

double learning_rate(const options::Chosen& optimizer) { return optimizer.value("lr").number; }

}  // namespace tandem::optim
