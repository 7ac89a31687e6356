#include "optim/registry.h"

#include <algorithm>

#include "core/error.h"
#include "core/suggest.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/adamw.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"

namespace tandem::optim {

namespace {

// Sets `member` of an options struct where the configuration gives it.
template <class T, class Given>
void set(T& member, const std::optional<Given>& given) {
  if (given) member = *given;
}

const OptimizerInfo& info_of(std::string_view name) {
  std::vector<std::string> known;
  for (const OptimizerInfo& info : optimizers()) {
    if (info.name == name) return info;
    known.push_back(info.name);
  }
  throw UserError("optimizer",
                  fmt::format("there is no optimizer \"{}\"{}", name, did_you_mean(name, known)));
}

void check_options(const OptimizerInfo& info, const OptimizerOptions& o) {
  std::string list = "lr, weight_decay, groups";
  for (const std::string& option : info.options) list += ", " + option;
  const auto check = [&](const char* key, bool given) {
    require(!given || std::ranges::find(info.options, key) != info.options.end(), info.name,
            "there is no option {}; {} takes {}", key, info.name, list);
  };
  check("momentum", o.momentum.has_value());
  check("dampening", o.dampening.has_value());
  check("nesterov", o.nesterov.has_value());
  check("beta1", o.beta1.has_value());
  check("beta2", o.beta2.has_value());
  check("eps", o.eps.has_value());
  check("amsgrad", o.amsgrad.has_value());
  check("alpha", o.alpha.has_value());
  check("centered", o.centered.has_value());
  check("lr_decay", o.lr_decay.has_value());
  check("initial_accumulator", o.initial_accumulator.has_value());
  check("trust_coefficient", o.trust_coefficient.has_value());
  check("adapt_vectors", o.adapt_vectors.has_value());
}

// Copies every member that both structs have.
template <class Options>
Options options_from(const OptimizerOptions& given) {
  Options o;
  o.lr = given.lr;
  o.groups = given.groups;
  set(o.weight_decay, given.weight_decay);
  if constexpr (requires { o.momentum; }) set(o.momentum, given.momentum);
  if constexpr (requires { o.dampening; }) set(o.dampening, given.dampening);
  if constexpr (requires { o.nesterov; }) set(o.nesterov, given.nesterov);
  if constexpr (requires { o.beta1; }) set(o.beta1, given.beta1);
  if constexpr (requires { o.beta2; }) set(o.beta2, given.beta2);
  if constexpr (requires { o.eps; }) set(o.eps, given.eps);
  if constexpr (requires { o.amsgrad; }) set(o.amsgrad, given.amsgrad);
  if constexpr (requires { o.alpha; }) set(o.alpha, given.alpha);
  if constexpr (requires { o.centered; }) set(o.centered, given.centered);
  if constexpr (requires { o.lr_decay; }) set(o.lr_decay, given.lr_decay);
  if constexpr (requires { o.initial_accumulator; }) set(o.initial_accumulator, given.initial_accumulator);
  if constexpr (requires { o.trust_coefficient; }) set(o.trust_coefficient, given.trust_coefficient);
  if constexpr (requires { o.adapt_vectors; }) set(o.adapt_vectors, given.adapt_vectors);
  return o;
}

}  // namespace

const std::vector<OptimizerInfo>& optimizers() {
  static const std::vector<OptimizerInfo> list = {
      {"sgd",
       "stochastic gradient descent, with momentum or Nesterov's",
       {"momentum", "dampening", "nesterov"}},
      {"adam", "adaptive moments; weight decay in the gradient", {"beta1", "beta2", "eps", "amsgrad"}},
      {"adamw", "Adam with decoupled weight decay", {"beta1", "beta2", "eps", "amsgrad"}},
      {"rmsprop", "gradients over their running root mean square", {"alpha", "eps", "momentum", "centered"}},
      {"adagrad", "gradients over the root of all their squares", {"lr_decay", "initial_accumulator", "eps"}},
      {"lars",
       "SGD with a trust ratio per layer, for large batches",
       {"momentum", "trust_coefficient", "eps", "adapt_vectors"}},
      {"lamb",
       "Adam with a trust ratio per layer, for large batches",
       {"beta1", "beta2", "eps", "adapt_vectors"}},
  };
  return list;
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, std::vector<Parameter> parameters,
                                          const OptimizerOptions& options) {
  check_options(info_of(name), options);
  const auto make = [&]<class Made, class Options>(TypeTag<Made>,
                                                   TypeTag<Options>) -> std::unique_ptr<Optimizer> {
    return std::make_unique<Made>(std::move(parameters), options_from<Options>(options));
  };
  if (name == "sgd") return make(TypeTag<Sgd>{}, TypeTag<SgdOptions>{});
  if (name == "adam") return make(TypeTag<Adam>{}, TypeTag<AdamOptions>{});
  if (name == "adamw") return make(TypeTag<AdamW>{}, TypeTag<AdamWOptions>{});
  if (name == "rmsprop") return make(TypeTag<Rmsprop>{}, TypeTag<RmspropOptions>{});
  if (name == "adagrad") return make(TypeTag<Adagrad>{}, TypeTag<AdagradOptions>{});
  if (name == "lars") return make(TypeTag<Lars>{}, TypeTag<LarsOptions>{});
  ensure(name == "lamb", "optimizer", "{} is listed but not made", name);
  return make(TypeTag<Lamb>{}, TypeTag<LambOptions>{});
}

}  // namespace tandem::optim
