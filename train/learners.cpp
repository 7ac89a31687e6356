#include "train/learners.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/suggest.h"
#include "core/units.h"
#include "optim/registry.h"

namespace tandem::train {

namespace {

using Chosen = options::Choice<optim::optimizers>;

std::vector<tasks::Share> shares_of(const tasks::Phase& phase) {
  if (!phase.shares.empty()) return phase.shares;
  return {{phase.name, phase.trained}};
}

std::vector<Parameter> trainable(const nn::Module& module) {
  std::vector<Parameter> parameters = module.parameters();
  std::erase_if(parameters, [](const Parameter& parameter) { return !parameter.trainable(); });
  return parameters;
}

const Chosen& optimizer_of(const config::Config& config, const std::string& name) {
  const auto found = std::ranges::find(config.optimizers, name, &std::pair<std::string, Chosen>::first);
  return found == config.optimizers.end() ? config.optimizer : found->second;
}

void require_known(const config::Loaded& loaded, const std::vector<tasks::Phase>& phases) {
  std::vector<std::string> names;
  for (const tasks::Phase& phase : phases)
    for (const tasks::Share& share : shares_of(phase)) names.push_back(share.optimizer);
  for (const auto& [name, chosen] : loaded.config.optimizers) {
    const std::string path = "optimizers." + name;
    require(std::ranges::find(names, name) != names.end(), "",
            "{}: {}: no trained part has this name{}; task {} has {}", config::place_of(loaded.given, path),
            path, did_you_mean(name, names), loaded.config.task.name(), fmt::join(names, ", "));
  }
}

// Parameters of different phases must be disjoint.
void require_apart(const std::vector<tasks::Phase>& phases) {
  std::vector<std::pair<Parameter, std::string>> known;
  for (const tasks::Phase& phase : phases) {
    const std::size_t before = known.size();
    for (const Parameter& parameter : trainable(*phase.trained)) {
      for (std::size_t i = 0; i < before; ++i)
        require(!(known[i].first == parameter), "",
                "phases {} and {} both train {}; a parameter belongs to one phase", known[i].second,
                phase.name, parameter.name());
      known.emplace_back(parameter, phase.name);
    }
  }
}

std::vector<std::unique_ptr<optim::Optimizer>> optimizers_of(const tasks::Phase& phase,
                                                             const config::Config& config) {
  std::vector<std::unique_ptr<optim::Optimizer>> made;
  for (const tasks::Share& share : shares_of(phase)) {
    std::vector<Parameter> parameters = trainable(*share.trained);
    require(!parameters.empty(), "", "{}: it has no parameter to train{}", share.optimizer,
            config.init_from && config.init_from->freeze ? ": init_from.freeze matches all of them" : "");
    made.push_back(optim::optimizers().make(optimizer_of(config, share.optimizer), std::move(parameters)));
  }
  return made;
}

}  // namespace

Learners::Learners(tasks::Task& task, const config::Loaded& loaded, const optim::StepOptions& options,
                   const ScheduleOf& schedule)
    : task_(task) {
  const std::vector<tasks::Phase> phases = task.phases();
  ensure(!phases.empty(), "task", "the task has no phase");
  require_known(loaded, phases);
  require_apart(phases);
  optim::StepOptions phase_options = options;
  const bool separate = phase_options.scaler.scope == optim::ScalerScope::loss;
  if (separate) {
    phase_options.scaler.losses = 0;
    for (const tasks::Phase& phase : phases) phase_options.scaler.losses += phase.losses;
  }
  if (phases.size() > 1) {
    const auto parameters = task.model().parameters();
    ensure(!parameters.empty(), "task", "the task has phases but no parameter");
    scaler_ = std::make_unique<optim::LossScaler>(phase_options.scaler, parameters.front().value().device());
    phase_options.shared_scaler = scaler_.get();
  }
  int losses = 0;
  for (const tasks::Phase& phase : phases) {
    Learner learner{.phase = phase, .optimizers = optimizers_of(phase, loaded.config), .step = nullptr};
    learner.separate_losses = separate;
    learner.first_loss = separate ? losses : 0;
    losses += phase.losses;
    std::vector<optim::Optimizer*> optimizers;
    for (const auto& optimizer : learner.optimizers) optimizers.push_back(optimizer.get());
    phase_options.schedule =
        schedule(optim::learning_rate(optimizer_of(loaded.config, shares_of(phase).front().optimizer)));
    learner.step = std::make_unique<optim::Step>(*phase.trained, optimizers, phase_options);
    learners_.push_back(std::move(learner));
  }
  name_parameters();
}

void Learners::end_iteration() {
  if (scaler_ && scaler_->awaits_update()) scaler_->update();
}

void Learners::set_rate_factor(const optim::RateFactor& factor) {
  for (Learner& learner : learners_) learner.step->set_rate_factor(factor);
}

void Learners::begin_averages() {
  for (Learner& learner : learners_) learner.step->begin_average();
}

double Learners::loss_scale(std::size_t phase) {
  return static_cast<double>(learners_[phase].step->loss_scale(learners_[phase].first_loss).item());
}

void Learners::set_loss_scale(double scale) {
  for (Learner& learner : learners_)
    for (int i = 0; i < learner.step->scaler().count(); ++i) learner.step->scaler().set(scale, i);
}

std::string Learners::prefix_of(std::size_t phase) const {
  return size() == 1 ? "" : learners_[phase].phase.name + ".";
}

std::string Learners::phase_suffix(std::size_t phase) const {
  return size() == 1 ? "" : " of the " + learners_[phase].phase.name;
}

std::string Learners::name_of(std::size_t phase) const {
  return size() == 1 ? "" : learners_[phase].phase.name;
}

std::string Learners::by_phase(const std::vector<double>& losses) const {
  std::string text;
  for (std::size_t phase = 0; phase < losses.size(); ++phase)
    text += fmt::format("{}{}{} {}", phase == 0 ? "" : ",", size() == 1 ? "" : " ", name_of(phase),
                        decimal_text(losses[phase], 4));
  return text;
}

std::vector<optim::NamedTensor> Learners::state() { return state_of(&optim::Step::state); }

std::vector<optim::NamedTensor> Learners::common_state() { return state_of(&optim::Step::common_state); }

void Learners::gather_gradients() {
  for (Learner& learner : learners_) learner.step->gather_gradients();
}

std::vector<optim::NamedTensor> Learners::state_of(StateOf kind) {
  name_parameters();
  std::vector<optim::NamedTensor> all;
  for (std::size_t phase = 0; phase < size(); ++phase)
    for (optim::NamedTensor& tensor : ((*learners_[phase].step).*kind)(prefix_of(phase)))
      all.push_back(std::move(tensor));
  if (scaler_)
    for (optim::NamedTensor& tensor : scaler_->state()) all.push_back(std::move(tensor));
  return all;
}

void Learners::load_state(const std::vector<optim::NamedTensor>& state, bool converting) {
  name_parameters();
  if (scaler_ && !converting) scaler_->load_state(state);
  for (std::size_t phase = 0; phase < size(); ++phase) {
    const std::string prefix = prefix_of(phase);
    optim::Step& step = *learners_[phase].step;
    step.load_state(converting ? step.converted(state, prefix) : state, prefix);
  }
}

AveragedWeights::AveragedWeights(Learners& learners) {
  for (const Learner& learner : learners)
    if (optim::Ema* const ema = learner.step->ema(); ema && ema->active(learner.step->synchronize().applied))
      scopes_.push_back(std::make_unique<optim::Ema::Scope>(*ema));
}

void AveragedWeights::leave() {
  for (const auto& scope : scopes_) scope->leave();
  scopes_.clear();
}

}  // namespace tandem::train
