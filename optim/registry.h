// Optimizers by name, for configurations and listings; and how one is described.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/options/registry.h"
#include "optim/optimizer.h"

namespace tandem::optim {

// Those of optim/all_optimizers.h in that order, and those that were added; without a name it is sgd.
const OptimizerRegistry& optimizers();
// Makes an optimizer of one's own known, before anything has asked for optimizers(): a program that calls
// this and then does what `tandem` does has it in configurations. Throws InternalError afterwards.
void add_optimizer(OptimizerRegistry::Entry entry);

// Throws UserError for an unknown name (with the nearest), an option the optimizer does not take, a value out
// of range.
//   make_optimizer("sgd", model->parameters(), {{"lr", 0.1}, {"momentum", 0.9}});
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, std::vector<Parameter> parameters,
                                          const options::Given& given = {});

// The learning rate that options of any optimizer say, or that is meant where they do not.
double learning_rate(const options::Chosen& optimizer);

// What an entry says besides its own options.
struct OptimizerFacts {
  std::string name, help;
  double lr;  // when neither options nor a schedule give one
};

// The entry of an optimizer that is made from `Options`; `describe` adds its own keys to those that every
// optimizer has (lr, weight_decay, groups).
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
             "when an update leaves those rows of an embedding table alone that the step has not touched: "
             "exact, where the weights are the same to the bit; lazy, always, so that such rows keep their "
             "moments and are not decayed; off, never");
  keys.key("groups", &Options::groups, "parameters with values of their own");
  return OptimizerRegistry::entry<Options>(
      facts.name, facts.help, keys, [](const Options& options, std::vector<Parameter> parameters) {
        return std::unique_ptr<Optimizer>(std::make_unique<Made>(std::move(parameters), options));
      });
}

}  // namespace tandem::optim
