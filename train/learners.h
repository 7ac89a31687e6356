// Learners: the optimizers and the Step of each phase of a task, in the order of an iteration, and the loss
// scaler that several phases share.
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
  bool separate_losses = false;  // each loss has its own backward and loss scale; else losses are summed
  int first_loss = 0;            // index of the phase's first loss scale
};

// Makes the learning-rate schedule of an optimizer with that learning rate.
using ScheduleOf = std::function<optim::Schedule(double lr)>;

class Learners {
 public:
  // `options` apply to every step. Throws UserError, with the line of the configuration if there is one, for
  // a phase without trainable parameters, for a parameter in two phases, and for an unknown key of
  // `optimizers`.
  Learners(tasks::Task& task, const config::Loaded& loaded, const optim::StepOptions& options,
           const ScheduleOf& schedule);

  std::size_t size() const { return learners_.size(); }
  Learner& operator[](std::size_t phase) { return learners_[phase]; }
  const Learner& operator[](std::size_t phase) const { return learners_[phase]; }
  Learner& front() { return learners_.front(); }
  auto begin() { return learners_.begin(); }
  auto end() { return learners_.end(); }

  // Call it when all phases of an iteration have applied their steps, or a retried step has: updates the
  // shared loss scale. Does nothing if no step was applied since.
  void end_iteration();
  // Attempted steps of the first phase.
  std::int64_t iterations() const { return learners_.front().step->attempted(); }
  // Set the rate factor of all steps and start their averages: see Step.
  void set_rate_factor(const optim::RateFactor& factor);
  void begin_averages();
  // The loss scale of a phase; waits for the device.
  double loss_scale(std::size_t phase);
  // Sets all loss scales, a power of two.
  void set_loss_scale(double scale);

  // State of the steps and their scalers, for a bit-identical resume, see Step::state. With several phases,
  // names begin with the phase's ("generator.master.generator.main.0.weight").
  std::vector<optim::NamedTensor> state();
  // See Step::common_state and Step::gather_gradients.
  std::vector<optim::NamedTensor> common_state();
  void gather_gradients();
  // `converting`: the state is of a run with another precision; the loss scales stay as they are.
  void load_state(const std::vector<optim::NamedTensor>& state, bool converting);

  // Prefix of state names: "" with one phase, else "generator.".
  std::string prefix_of(std::size_t phase) const;
  // "" with one phase, else " of the discriminator": for messages about a step.
  std::string phase_suffix(std::size_t phase) const;
  // "" with one phase, else "discriminator".
  std::string name_of(std::size_t phase) const;
  // " 0.1234", or for several phases " generator 0.1234, discriminator 0.5678".
  std::string by_phase(const std::vector<double>& losses) const;

 private:
  using StateOf = std::vector<optim::NamedTensor> (optim::Step::*)(std::string_view);
  std::vector<optim::NamedTensor> state_of(StateOf kind);
  // Sets parameter names to paths from the root; each call of Module::parameters() renames them by its
  // module.
  void name_parameters() { task_.model().parameters(); }

  tasks::Task& task_;
  std::unique_ptr<optim::LossScaler> scaler_;  // outlives the steps; absent with one phase
  std::vector<Learner> learners_;
};

// Scope in which the weights are their averages, if the steps keep averages and these have started. Waits for
// the device.
class AveragedWeights {
 public:
  explicit AveragedWeights(Learners& learners);
  // Restores the weights before the destructor does. The destructor reports no error.
  void leave();

 private:
  std::vector<std::unique_ptr<optim::Ema::Scope>> scopes_;
};

}  // namespace tandem::train
