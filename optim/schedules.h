// Learning rates as pure functions of the number of applied steps. A skipped step does not move them.
//
// Schedules with an end (polynomial, cosine, one-cycle) take it in steps and stay at their last value beyond
// it. Every schedule can be preceded by a linear warm-up, in the way of the `warmup` argument:
//  - with an end, the warm-up rises to the first value of the schedule, which then runs from there to the
//  end;
//  - without (constant, step, multi-step, exponential), the warm-up multiplies the schedule, whose milestones
//  keep
//    their places.
// Errors: UserError for a negative rate, counts below one, or a warm-up that is not shorter than the
// schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::optim {

// At step t < steps the rate is multiplied by start + (1 - start)·t/steps.
struct Warmup {
  std::int64_t steps = 0;
  // 1/(steps + 1) unless given: equal steps that neither start at zero nor repeat the top.
  std::optional<double> start{};
};

class Schedule {
 public:
  using Function = std::function<double(std::int64_t)>;

  // `rate` is defined from 0 on; `peak` is the rate it was made with. For schedules of one's own.
  Schedule(double peak, Function rate);

  // The learning rate of the step that follows `applied` applied ones.
  double operator()(std::int64_t applied) const { return rate_(applied); }
  double peak() const { return peak_; }

 private:
  double peak_;
  Function rate_;
};

Schedule constant(double lr, Warmup warmup = {});
// × gamma every `every` steps.
Schedule step(double lr, std::int64_t every, double gamma = 0.1, Warmup warmup = {});
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

// ---- By name, for configurations ----

// What a configuration may say; each schedule takes some of it (see schedules()).
struct ScheduleOptions {
  std::optional<double> lr{};
  std::optional<std::int64_t> steps{};
  std::optional<std::int64_t> warmup_steps{};
  std::optional<double> warmup_start{};
  std::optional<std::int64_t> every{};
  std::optional<double> gamma{};
  std::optional<std::vector<std::int64_t>> milestones{};
  std::optional<double> power{};
  std::optional<double> end_lr{};
  std::optional<double> rise{};
  std::optional<double> div_factor{};
  std::optional<double> final_div_factor{};
  std::optional<bool> linear{};
  std::optional<bool> three_phase{};
};

struct ScheduleInfo {
  std::string name{};
  std::string summary{};
  std::vector<std::string> required{}, optional{};  // names of members of ScheduleOptions
};

// All schedules, for listings. Every one requires lr and takes warmup_steps and warmup_start.
const std::vector<ScheduleInfo>& schedules();

// `steps` is the length of the run and may be given to schedules without an end, which do not look at it.
// Throws UserError for an unknown name (with the nearest), for a missing option and for one that the schedule
// does not take.
Schedule make_schedule(std::string_view name, const ScheduleOptions& options);

}  // namespace tandem::optim
