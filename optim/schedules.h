// Learning-rate schedules: pure functions of the number of applied steps. A skipped step does not advance
// them.
//
// Schedules with an end (polynomial, cosine, one-cycle) take it in steps and keep their last value beyond it.
// Every schedule can have a warm-up:
//  - with an end, the warm-up rises to the first value of the schedule, which then runs from there to the
//    end;
//  - without (constant, step, multi-step, exponential, inverse square root, late steps), the warm-up
//    multiplies the schedule, whose milestones keep their positions.
// schedules.cpp holds the formulas, then their descriptions for configurations.
// Errors: UserError for a negative rate, counts below one, or a warm-up that is not shorter than the
// schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/options/registry.h"
#include "optim/plateau.h"

namespace tandem::optim {

enum class WarmupForm : std::uint8_t { linear, exponential };

// Default start of an exponential warm-up (GNMT).
inline constexpr double kExponentialStart = 0.01;

// At step t < steps the rate is multiplied by start + (1 - start)·t/steps (linear) or start^(1 - t/steps)
// (exponential).
struct Warmup {
  std::int64_t steps = 0;
  // Default for linear: 1/(steps + 1), which gives equal increments that neither start at zero nor repeat the
  // peak. Default for exponential: kExponentialStart; must lie in (0, 1].
  std::optional<double> start{};
  WarmupForm form = WarmupForm::linear;
};

class Schedule {
 public:
  using Function = std::function<double(std::int64_t)>;

  // `rate` is defined from 0 on; `peak` is its highest rate. For custom schedules.
  Schedule(double peak, Function rate);

  // The learning rate of the step after `applied` applied ones.
  double operator()(std::int64_t applied) const { return rate_(applied); }
  double peak() const { return peak_; }

 private:
  double peak_;
  Function rate_;
};

Schedule constant(double lr, Warmup warmup = {});
// × gamma at step `first` (default: `every`) and every `every` steps after it. Zaremba, Sutskever and Vinyals
// 2014 keep the rate for some epochs and then lower it after each: every = 1 epoch, first = those epochs.
Schedule step(double lr, std::int64_t every, double gamma = 0.1, Warmup warmup = {},
              std::optional<std::int64_t> first = {});
// × gamma at each milestone.
Schedule multi_step(double lr, std::vector<std::int64_t> milestones, double gamma = 0.1, Warmup warmup = {});
// lr·gamma^(t/every), continuously.
Schedule exponential(double lr, double gamma, std::int64_t every = 1, Warmup warmup = {});
// (lr - end)·(1 - t/steps)^power + end.
Schedule polynomial(double lr, std::int64_t steps, double power = 1.0, double end = 0.0, Warmup warmup = {});
// end + (lr - end)·(1 + cos(π·t/steps))/2 (Loshchilov and Hutter, "SGDR", ICLR 2017, one period).
Schedule cosine(double lr, std::int64_t steps, double end = 0.0, Warmup warmup = {});

// Smith and Topin, "Super-convergence", 2018, as PyTorch's OneCycleLR (without its cycling of momentum): from
// lr/div_factor up to lr over the first `rise` of the steps, then down to lr/(div_factor·final_div_factor).
// With three phases it first falls back symmetrically to lr/div_factor.
struct OneCycle {
  double rise = 0.3;
  double div_factor = 25.0;
  double final_div_factor = 1e4;
  bool linear = false;  // cosine otherwise
  bool three_phase = false;
};
Schedule one_cycle(double lr, std::int64_t steps, OneCycle shape = {}, Warmup warmup = {});

// lr·√(w/t) from the end of a warm-up of w ≥ 1 steps (Vaswani et al. 2017, in the form of fairseq: t counts
// the applied steps before this one, and lr is the highest rate, reached at t = w; the paper's d^-½·min(n^-½,
// n·w^-1.5) is this with lr = (d·w)^-½, n = t + 1 and a start of 1/w).
Schedule inverse_sqrt(double lr, Warmup warmup);

// The schedule of GNMT's translation models: constant until step `begin`, there × gamma, and again every
// `every` steps, `drops` times in all.
struct LateSteps {
  std::int64_t begin = 1, every = 1, drops = 4;
  double gamma = 0.5;
};
Schedule late_steps(double lr, const LateSteps& shape, Warmup warmup = {});

// The run of a schedule.
struct ScheduleContext {
  double lr = 0.0;
  std::int64_t steps = 1;            // of the run
  std::int64_t steps_per_epoch = 1;  // converts epochs to steps
  Warmup warmup{};
};

using ScheduleRegistry = options::Registry<Schedule(const ScheduleContext&)>;

// All schedules. Default: constant.
ScheduleRegistry& schedules();

// A schedule of a configuration with its options and warm-up.
struct ScheduleOptions {
  options::Choice<schedules> kind;
  std::int64_t warmup_steps = 0;
  double warmup_epochs = 0.0;  // added to warmup_steps
  std::optional<double> warmup_start{};
  WarmupForm warmup_form = WarmupForm::linear;
  std::optional<PlateauOptions> plateau{};  // for the evaluating code; schedules ignore it
  static const options::Schema& schema();
};

// `course` excludes the warm-up. Throws UserError as the schedules do, and for a warm-up that is not shorter
// than the run.
Schedule make_schedule(const ScheduleOptions& options, ScheduleContext course);

}  // namespace tandem::optim
