// Optimizers by name, for configurations and listings, and their descriptions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/options/registry.h"
#include "optim/optimizer.h"

namespace tandem::optim {

// The entries of optim/all_optimizers.h in order, then added ones. Default: sgd.
OptimizerRegistry& optimizers();

// Throws UserError for an unknown name (naming the nearest), an option the optimizer does not have, and a
// value out of range.
//   make_optimizer("sgd", model->parameters(), {{"lr", 0.1}, {"momentum", 0.9}});
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, std::vector<Parameter> parameters,
                                          const options::Given& given = {});

// The learning rate in the options of any optimizer, or its default.
double learning_rate(const options::Chosen& optimizer);

// Facts of an entry besides its options.
struct OptimizerFacts {
  std::string name, help;
  double lr;  // default, without one in the options or in the schedule
};

// The entry of an optimizer made from `Options`; `describe` adds keys to those of every optimizer (lr,
// weight_decay, groups).
template <class Made, class Options>
OptimizerRegistry::Entry optimizer_entry(const OptimizerFacts& facts,
                                         const std::function<void(options::Describe<Options>&)>& describe) {
  options::Describe<Options> keys;
  keys.key("lr", &Options::lr, "learning rate, which the schedule scales",
           {.min = 0.0, .max = 1e6, .keyword = "auto", .fallback = facts.lr})
      .key("weight_decay", &Options::weight_decay, "decay of the weights",
           {.min = 0.0, .max = 1e6, .keyword = "auto"});
  describe(keys);
  if constexpr (requires { Options{}.sparse; })
    keys.key("sparse", &Options::sparse,
             "sparse updates of embedding tables, which skip rows without a gradient in the step: exact, if "
             "the weights equal those of dense updates bit for bit; lazy, always, so that skipped rows keep "
             "their moments and are not decayed; off, never");
  keys.key("groups", &Options::groups, "parameter groups with their own values");
  return OptimizerRegistry::entry<Options>(
      facts.name, facts.help, keys, [](const Options& options, std::vector<Parameter> parameters) {
        return std::unique_ptr<Optimizer>(std::make_unique<Made>(std::move(parameters), options));
      });
}

}  // namespace tandem::optim
