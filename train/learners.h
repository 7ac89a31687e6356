// Learners: what trains the phases of a task, in the order of an iteration: the optimizers and the Step of
// each, and the loss scaler that they share where there are several.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/load.h"
#include "optim/optimizer.h"
#include "optim/step.h"
#include "tasks/task.h"

namespace tandem::train {

struct Learner {
  tasks::Phase phase;
  std::vector<std::unique_ptr<optim::Optimizer>> optimizers;
  std::unique_ptr<optim::Step> step;
  bool separate_losses = false;  // every loss of the phase has a backward and a loss scale of its own,
  int first_loss = 0;            // the first one this scale; else they are added up
};

// The course of a learning rate over the run.
using ScheduleOf = std::function<optim::Schedule(double lr)>;

class Learners {
 public:
  // `options` are those of every step. Throws UserError, with the line of the configuration where there is
  // one, for a phase without a parameter to train, for a parameter that two of them train, and for a key of
  // `optimizers` that names none.
  Learners(tasks::Task& task, const config::Loaded& loaded, const optim::StepOptions& options,
           const ScheduleOf& schedule);

  std::size_t size() const { return learners_.size(); }
  Learner& operator[](std::size_t phase) { return learners_[phase]; }
  const Learner& operator[](std::size_t phase) const { return learners_[phase]; }
  Learner& front() { return learners_.front(); }
  auto begin() { return learners_.begin(); }
  auto end() { return learners_.end(); }

  // To be called when all phases of an iteration have applied their steps, or one that is done again has:
  // moves the scale that they share. Does nothing where no step was applied since.
  void end_iteration();
  // Iterations are numbered by the attempted steps of the first phase.
  std::int64_t iterations() const { return learners_.front().step->attempted(); }
  // What evaluations make of the rates of all steps, and that their averages begin: see Step.
  void set_rate_factor(const optim::RateFactor& factor);
  void begin_averages();
  // The loss scale of a phase; waits for the device.
  double loss_scale(std::size_t phase);

  // All that the steps and their scaler need to go on bit for bit, see Step::state. With one phase the names
  // are its step's; with several they begin with the phase's ("generator.master.generator.main.0.weight").
  std::vector<optim::NamedTensor> state();
  // See Step::common_state and Step::gather_gradients.
  std::vector<optim::NamedTensor> common_state();
  void gather_gradients();
  // `converting`: from a run of another precision; the scales are as they are now then.
  void load_state(const std::vector<optim::NamedTensor>& state, bool converting);

  // Before the names of its state: "" with one phase, else "generator.".
  std::string prefix_of(std::size_t phase) const;
  // "" with one phase, else " of the discriminator": for sentences on a step.
  std::string phase_suffix(std::size_t phase) const;
  // "" with one phase, else "discriminator".
  std::string name_of(std::size_t phase) const;
  // " 0.1234", or of several phases " generator 0.1234, discriminator 0.5678".
  std::string by_phase(const std::vector<double>& losses) const;

 private:
  using StateOf = std::vector<optim::NamedTensor> (optim::Step::*)(std::string_view);
  std::vector<optim::NamedTensor> state_of(StateOf kind);
  // Parameters are named by the module that was asked for them last: from the root, for states and reports.
  void name_parameters() { task_.model().parameters(); }

  tasks::Task& task_;
  std::unique_ptr<optim::LossScaler> scaler_;  // outlives the steps; absent with one phase
  std::vector<Learner> learners_;
};

// The averages stand in for the weights, where the steps keep any and there are some by now. Waits for the
// device.
class AveragedWeights {
 public:
  explicit AveragedWeights(Learners& learners);
  // Before its time; the destructor does so too, and tells no error.
  void leave();

 private:
  std::vector<std::unique_ptr<optim::Ema::Scope>> scopes_;
};

}  // namespace tandem::train
