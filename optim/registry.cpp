#include "optim/registry.h"

#include "optim/all_optimizers.h"

namespace tandem::optim {

OptimizerRegistry& optimizers() {
  static OptimizerRegistry registry({.what = "optimizer", .help = "update rule", .fallback = "sgd"},
                                    {built_in_optimizers});
  return registry;
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, std::vector<Parameter> parameters,
                                          const options::Given& given) {
  return optimizers().make(name, given, std::move(parameters));
}

double learning_rate(const options::Chosen& optimizer) { return optimizer.value("lr").number; }

}  // namespace tandem::optim
