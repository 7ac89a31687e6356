#include "optim/lamb.h"

#include "optim/adam_rule.h"

namespace tandem::optim {

const OptimizerRegistry::Entry& Lamb::entry() {
  static const OptimizerRegistry::Entry entry = optimizer_entry<Lamb, LambOptions>(
      {.name = "lamb", .help = "Adam with a trust ratio per layer, for large batches", .lr = 1e-3},
      [](options::Describe<LambOptions>& keys) {
        describe_betas(keys);
        describe_eps(keys);
        keys.key("adapt_vectors", &LambOptions::adapt_vectors,
                 "apply trust ratios to biases and normalisation parameters too");
      });
  return entry;
}

Lamb::Lamb(std::vector<Parameter> parameters, const LambOptions& options)
    : Optimizer(std::move(parameters), entry(), options, adam_rule<update_rules::Lamb>(options),
                {{"mean"}, {"square"}}) {}

}  // namespace tandem::optim
