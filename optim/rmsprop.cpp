#include "optim/rmsprop.h"

#include "core/kernels/update_rules.h"
#include "optim/registry.h"

namespace tandem::optim {

namespace {
std::vector<Moment> moments_of(const RmspropOptions& options) {
  std::vector<Moment> moments{{"square"}};
  if (options.centered) moments.push_back({"mean"});
  if (options.momentum != 0.0) moments.push_back({"momentum"});
  return moments;
}
}  // namespace

const OptimizerRegistry::Entry& Rmsprop::entry() {
  static const OptimizerRegistry::Entry entry = optimizer_entry<Rmsprop, RmspropOptions>(
      {.name = "rmsprop", .help = "gradient divided by its running root mean square", .lr = 1e-2},
      [](options::Describe<RmspropOptions>& keys) {
        keys.key("momentum", &RmspropOptions::momentum, "momentum factor",
                 {.min = 0.0, .max = 1.0, .open_max = true, .keyword = "auto"})
            .key("eps", &RmspropOptions::eps, "added to the denominator",
                 {.min = 0.0, .max = 1.0, .keyword = "auto"})
            .key("alpha", &RmspropOptions::alpha, "decay of the mean of squares",
                 {.min = 0.0, .max = 1.0, .open_max = true})
            .key("centered", &RmspropOptions::centered, "divide by the standard deviation instead");
      });
  return entry;
}

Rmsprop::Rmsprop(std::vector<Parameter> parameters, const RmspropOptions& options)
    : Optimizer(std::move(parameters), entry(), options,
                update_rules::Rmsprop{.alpha = options.alpha,
                                      .eps = options.eps,
                                      .momentum = options.momentum,
                                      .centered = options.centered},
                moments_of(options)) {}

}  // namespace tandem::optim
