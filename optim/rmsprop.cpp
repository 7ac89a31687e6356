#include "optim/rmsprop.h"

#include "optim/registry.h"

namespace tandem::optim {

const OptimizerFamily::Entry& entry_of(OptimizerOf<update_rules::Rmsprop>) {
  static const auto entry = optimizer_entry<Rmsprop, RmspropOptions>(
      {.name = "rmsprop", .help = "gradients over their running root mean square", .lr = 1e-2},
      [](options::Describe<RmspropOptions>& keys) {
        keys.key("momentum", &RmspropOptions::momentum, "share of the last update kept",
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
    : Optimizer(std::move(parameters), entry_of(OptimizerOf<update_rules::Rmsprop>{}), options,
                update_rules::Rmsprop{.alpha = options.alpha,
                                      .eps = options.eps,
                                      .momentum = options.momentum,
                                      .centered = options.centered},
                {Moment{"square"}, Moment{options.centered ? "mean" : ""},
                 Moment{options.momentum != 0.0 ? "momentum" : ""}}) {}

}  // namespace tandem::optim
