#include "optim/schedules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace tandem::optim {

// Unit of a length.
enum class Unit : std::uint8_t { epochs, steps };

}  // namespace tandem::optim

template <>
struct tandem::options::EnumNames<tandem::optim::Unit> {
  static constexpr std::array values{"epochs", "steps"};
};

template <>
struct tandem::options::EnumNames<tandem::optim::WarmupForm> {
  static constexpr std::array values{"linear", "exponential"};
};

namespace tandem::optim {

namespace {

using Entry = ScheduleRegistry::Entry;

void check(const char* where, double lr, const Warmup& warmup) {
  require(std::isfinite(lr) && lr >= 0.0, where, "lr must be a number of at least 0, is {}", lr);
  require(warmup.steps >= 0, where, "warmup_steps must be at least 0, is {}", warmup.steps);
  const double start = warmup.start.value_or(0.0);
  require(start >= 0.0 && start <= 1.0, where, "warmup_start must lie in [0, 1], is {}", start);
  require(warmup.form == WarmupForm::linear || !warmup.start || start > 0.0, where,
          "an exponential warm-up cannot start from 0: warmup_start must lie in (0, 1]");
}

void check_count(const char* where, const char* key, std::int64_t value) {
  require(value >= 1, where, "{} must be at least 1, is {}", key, value);
}

// At step t < warmup.steps.
double warmup_factor(const Warmup& warmup, std::int64_t t) {
  const double steps = static_cast<double>(warmup.steps);
  const double part = static_cast<double>(t) / steps;
  if (warmup.form == WarmupForm::exponential)
    return std::pow(warmup.start.value_or(kExponentialStart), 1.0 - part);
  const double start = warmup.start.value_or(1.0 / (steps + 1.0));
  return start + (1.0 - start) * part;
}

// For schedules without an end: warm-up multiplies `rate`.
Schedule multiplied(double lr, Warmup warmup, Schedule::Function rate) {
  if (warmup.steps == 0) return {lr, std::move(rate)};
  return {lr, [warmup, rate = std::move(rate)](std::int64_t t) {
            return t < warmup.steps ? warmup_factor(warmup, t) * rate(t) : rate(t);
          }};
}

// For schedules with an end: `rate` counts steps from the end of warm-up.
Schedule preceded(double lr, Warmup warmup, Schedule::Function rate) {
  return {lr, [warmup, rate = std::move(rate)](std::int64_t t) {
            return t < warmup.steps ? warmup_factor(warmup, t) * rate(0) : rate(t - warmup.steps);
          }};
}

std::int64_t in_steps(double epochs, const ScheduleContext& course) {
  return std::llround(epochs * static_cast<double>(course.steps_per_epoch));
}

// In steps, at least 1.
std::int64_t counted(double count, Unit unit, const ScheduleContext& course) {
  return std::max<std::int64_t>(unit == Unit::steps ? std::llround(count) : in_steps(count, course), 1);
}

template <class Options>
void describe_unit(options::Describe<Options>& keys, const char* of = "unit of `every` and `milestones`") {
  keys.key("unit", &Options::unit, of);
}

template <class Options>
options::Describe<Options>& describe_gamma(options::Describe<Options>& keys) {
  return keys.key("gamma", &Options::gamma, "factor on the rate at each drop",
                  {.min = 0.0, .max = 1.0, .open_min = true, .keyword = "auto"});
}

template <class Options>
void describe_every(options::Describe<Options>& keys) {
  describe_unit(keys);
  keys.key("every", &Options::every, "length after which the rate is multiplied by `gamma`",
           {.min = 0.0, .max = 1e9, .open_min = true});
}

template <class Options>
options::Describe<Options>& describe_end(options::Describe<Options>& keys) {
  return keys.key("end_lr", &Options::end_lr, "learning rate at the end", {.min = 0.0, .max = 1e6});
}

// Steps after the warm-up.
std::int64_t remaining(const char* where, std::int64_t steps, const Warmup& warmup) {
  check_count(where, "steps", steps);
  require(warmup.steps < steps, where, "a warm-up of {} steps leaves nothing of {} steps", warmup.steps,
          steps);
  return steps - warmup.steps;
}

double fraction(std::int64_t t, std::int64_t steps) {
  return static_cast<double>(std::min(t, steps)) / static_cast<double>(steps);
}

}  // namespace

Schedule::Schedule(double peak, Function rate) : peak_(peak), rate_(std::move(rate)) {
  require(static_cast<bool>(rate_), "schedule", "the function is empty");
}

Schedule constant(double lr, Warmup warmup) {
  check("constant", lr, warmup);
  return multiplied(lr, warmup, [lr](std::int64_t) { return lr; });
}

Schedule step(double lr, std::int64_t every, double gamma, Warmup warmup, std::optional<std::int64_t> first) {
  check("step", lr, warmup);
  check_count("step", "every", every);
  check_count("step", "first", first.value_or(every));
  require(gamma > 0.0, "step", "gamma must be positive, is {}", gamma);
  return multiplied(lr, warmup, [=, begin = first.value_or(every)](std::int64_t t) {
    const std::int64_t drops = t < begin ? 0 : (t - begin) / every + 1;
    return lr * std::pow(gamma, static_cast<double>(drops));
  });
}

Schedule multi_step(double lr, std::vector<std::int64_t> milestones, double gamma, Warmup warmup) {
  check("multi_step", lr, warmup);
  require(gamma > 0.0, "multi_step", "gamma must be positive, is {}", gamma);
  require(std::ranges::is_sorted(milestones, std::ranges::less_equal{}) &&
              (milestones.empty() || milestones.front() > 0),
          "multi_step", "milestones must be positive and increasing");
  return multiplied(lr, warmup, [lr, gamma, milestones = std::move(milestones)](std::int64_t t) {
    const auto passed = std::ranges::upper_bound(milestones, t) - milestones.begin();
    return lr * std::pow(gamma, static_cast<double>(passed));
  });
}

Schedule exponential(double lr, double gamma, std::int64_t every, Warmup warmup) {
  check("exponential", lr, warmup);
  check_count("exponential", "every", every);
  require(gamma > 0.0, "exponential", "gamma must be positive, is {}", gamma);
  return multiplied(lr, warmup, [=](std::int64_t t) {
    return lr * std::pow(gamma, static_cast<double>(t) / static_cast<double>(every));
  });
}

Schedule polynomial(double lr, std::int64_t steps, double power, double end, Warmup warmup) {
  check("polynomial", lr, warmup);
  require(power > 0.0 && end >= 0.0, "polynomial",
          "power must be positive and end_lr at least 0, are {} and {}", power, end);
  const std::int64_t span = remaining("polynomial", steps, warmup);
  return preceded(lr, warmup, [=](std::int64_t t) {
    return (lr - end) * std::pow(1.0 - fraction(t, span), power) + end;
  });
}

Schedule cosine(double lr, std::int64_t steps, double end, Warmup warmup) {
  check("cosine", lr, warmup);
  require(end >= 0.0, "cosine", "end_lr must be at least 0, is {}", end);
  const std::int64_t span = remaining("cosine", steps, warmup);
  return preceded(lr, warmup, [=](std::int64_t t) {
    return end + (lr - end) * (1.0 + std::cos(std::numbers::pi * fraction(t, span))) / 2.0;
  });
}

Schedule one_cycle(double lr, std::int64_t steps, OneCycle shape, Warmup warmup) {
  check("one_cycle", lr, warmup);
  require(shape.rise > 0.0 && shape.rise < (shape.three_phase ? 0.5 : 1.0), "one_cycle",
          "rise must lie in (0, {}), is {}", shape.three_phase ? 0.5 : 1.0, shape.rise);
  require(shape.div_factor > 0.0 && shape.final_div_factor > 0.0, "one_cycle",
          "div_factor and final_div_factor must be positive, are {} and {}", shape.div_factor,
          shape.final_div_factor);
  const double last = static_cast<double>(remaining("one_cycle", steps, warmup) - 1);
  const double initial = lr / shape.div_factor, final = initial / shape.final_div_factor;
  const auto between = [linear = shape.linear](double from, double to, double part) {
    return linear ? from + (to - from) * part
                  : to + (from - to) / 2.0 * (1.0 + std::cos(std::numbers::pi * part));
  };
  // Ends of the phases, in steps. A run too short for a rise starts at the top.
  const double top = std::max(0.0, shape.rise * (last + 1.0) - 1.0);
  const double back = shape.three_phase ? std::max(top, 2.0 * shape.rise * (last + 1.0) - 2.0) : top;
  return preceded(lr, warmup, [=](std::int64_t step) {
    const double t = std::min(static_cast<double>(step), last);
    if (t <= top) return top > 0.0 ? between(initial, lr, t / top) : lr;
    if (t <= back) return between(lr, initial, (t - top) / (back - top));
    return between(shape.three_phase ? initial : lr, final, (t - back) / (last - back));
  });
}

Schedule inverse_sqrt(double lr, Warmup warmup) {
  check("inverse_sqrt", lr, warmup);
  check_count("inverse_sqrt", "warmup_steps", warmup.steps);
  const auto start = static_cast<double>(warmup.steps);
  return multiplied(lr, warmup, [=](std::int64_t t) {
    return t < warmup.steps ? lr : lr * std::sqrt(start / static_cast<double>(t));
  });
}

Schedule late_steps(double lr, const LateSteps& shape, Warmup warmup) {
  check("late_steps", lr, warmup);
  check_count("late_steps", "begin", shape.begin);
  check_count("late_steps", "every", shape.every);
  require(shape.drops >= 0, "late_steps", "drops must be at least 0, is {}", shape.drops);
  require(shape.gamma > 0.0, "late_steps", "gamma must be positive, is {}", shape.gamma);
  return multiplied(lr, warmup, [=](std::int64_t t) {
    const std::int64_t passed = t < shape.begin ? 0 : (t - shape.begin) / shape.every + 1;
    return lr * std::pow(shape.gamma, static_cast<double>(std::min(passed, shape.drops)));
  });
}

namespace {

struct ConstantOptions {};

Entry constant_entry() {
  return ScheduleRegistry::entry<ConstantOptions>("constant", "the same rate throughout",
                                                  options::Describe<ConstantOptions>(),
                                                  [](const ConstantOptions&, const ScheduleContext& course) {
                                                    return constant(course.lr, course.warmup);
                                                  });
}

struct StepDecayOptions {
  Unit unit = Unit::epochs;
  double every = 30.0;
  std::optional<double> first{};
  double gamma = 0.1;
};

Entry step_entry() {
  options::Describe<StepDecayOptions> keys;
  describe_every(keys);
  keys.key("first", &StepDecayOptions::first,
           "position of the first drop; auto: `every` (4 with every 1: full rate in epochs 1 to 4, then "
           "× gamma every epoch)",
           {.min = 0.0, .max = 1e9, .open_min = true, .keyword = "auto"});
  return ScheduleRegistry::entry<StepDecayOptions>(
      "step", "× gamma every `every` steps", describe_gamma(keys),
      [](const StepDecayOptions& o, const ScheduleContext& course) {
        const std::int64_t every = counted(o.every, o.unit, course);
        return step(course.lr, every, o.gamma, course.warmup,
                    o.first ? counted(*o.first, o.unit, course) : every);
      });
}

struct MultiStepOptions {
  Unit unit = Unit::epochs;
  std::vector<double> milestones;
  double gamma = 0.1;
};

Entry multi_step_entry() {
  options::Describe<MultiStepOptions> keys;
  describe_unit(keys);
  keys.key("milestones", &MultiStepOptions::milestones, "positions of the drops, in increasing order",
           {.min = 0.0, .max = 1e9, .open_min = true})
      .rule("milestones", "expected increasing values",
            [](const MultiStepOptions& o) { return std::ranges::is_sorted(o.milestones); })
      .rule("milestones", "required by multi_step",
            [](const MultiStepOptions& o) { return !o.milestones.empty(); });
  return ScheduleRegistry::entry<MultiStepOptions>(
      "multi_step", "× gamma at given steps", describe_gamma(keys),
      [](const MultiStepOptions& o, const ScheduleContext& course) {
        std::vector<std::int64_t> milestones;
        for (const double milestone : o.milestones) milestones.push_back(counted(milestone, o.unit, course));
        return multi_step(course.lr, std::move(milestones), o.gamma, course.warmup);
      });
}

struct ExponentialOptions {
  Unit unit = Unit::epochs;
  double every = 30.0;
  double gamma = 0.1;
};

Entry exponential_entry() {
  options::Describe<ExponentialOptions> keys;
  describe_every(keys);
  return ScheduleRegistry::entry<ExponentialOptions>(
      "exponential", "× gamma per step (or per `every` steps), continuously", describe_gamma(keys),
      [](const ExponentialOptions& o, const ScheduleContext& course) {
        return exponential(course.lr, o.gamma, counted(o.every, o.unit, course), course.warmup);
      });
}

struct PolynomialOptions {
  double power = 1.0;
  double end_lr = 0.0;
};

Entry polynomial_entry() {
  options::Describe<PolynomialOptions> keys;
  keys.key("power", &PolynomialOptions::power, "exponent of the decay", {.min = 0.0, .max = 100.0});
  return ScheduleRegistry::entry<PolynomialOptions>(
      "polynomial", "decays to end_lr as a power of the remaining steps", describe_end(keys),
      [](const PolynomialOptions& o, const ScheduleContext& course) {
        return polynomial(course.lr, course.steps, o.power, o.end_lr, course.warmup);
      });
}

struct CosineOptions {
  double end_lr = 0.0;
};

Entry cosine_entry() {
  options::Describe<CosineOptions> keys;
  return ScheduleRegistry::entry<CosineOptions>(
      "cosine", "decays to end_lr along half a cosine", describe_end(keys),
      [](const CosineOptions& o, const ScheduleContext& course) {
        return cosine(course.lr, course.steps, o.end_lr, course.warmup);
      });
}

Entry one_cycle_entry() {
  return ScheduleRegistry::entry<OneCycle>(
      "one_cycle", "rises from a low rate, then falls to a lower one",
      options::Describe<OneCycle>()
          .key("rise", &OneCycle::rise, "position of the peak, as a share of the run",
               {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true})
          .key("div_factor", &OneCycle::div_factor, "first rate: lr / div_factor", {.min = 1.0, .max = 1e9})
          .key("final_div_factor", &OneCycle::final_div_factor, "last rate: first rate / final_div_factor",
               {.min = 1.0, .max = 1e12})
          .key("linear", &OneCycle::linear, "straight lines instead of cosines")
          .key("three_phase", &OneCycle::three_phase,
               "first fall back to the first rate, symmetrically, then to the last rate"),
      [](const OneCycle& o, const ScheduleContext& course) {
        return one_cycle(course.lr, course.steps, o, course.warmup);
      });
}

struct InverseSqrtOptions {};

Entry inverse_sqrt_entry() {
  return ScheduleRegistry::entry<InverseSqrtOptions>(
      "inverse_sqrt", "lr·√(warmup_steps / step) after the warm-up, which is required",
      options::Describe<InverseSqrtOptions>(), [](const InverseSqrtOptions&, const ScheduleContext& course) {
        require(course.warmup.steps > 0, "",
                "schedule: inverse_sqrt starts at the end of a warm-up, but there is none; give "
                "schedule.warmup_steps or warmup_epochs");
        return inverse_sqrt(course.lr, course.warmup);
      });
}

struct LateStepsOptions {
  double begin = 2.0 / 3.0;
  Unit unit = Unit::epochs;
  std::optional<double> every{};
  std::int64_t drops = 4;
  double gamma = 0.5;
};

// Default of `every`: the drops divide the rest of the run evenly.
LateSteps shape_of(const LateStepsOptions& o, const ScheduleContext& course) {
  LateSteps shape{.drops = o.drops, .gamma = o.gamma};
  shape.begin =
      std::max<std::int64_t>(static_cast<std::int64_t>(o.begin * static_cast<double>(course.steps)), 1);
  const std::int64_t rest = course.steps - shape.begin;
  shape.every = o.every ? counted(*o.every, o.unit, course)
                        : std::max<std::int64_t>(rest / std::max<std::int64_t>(o.drops, 1), 1);
  return shape;
}

Entry late_steps_entry() {
  options::Describe<LateStepsOptions> keys;
  keys.key("begin", &LateStepsOptions::begin, "position of the first drop, as a share of the run",
           {.min = 0.0, .max = 1.0})
      .key("drops", &LateStepsOptions::drops, "number of drops", {.min = 0, .max = 1e6});
  describe_unit(keys, "unit of `every`");
  keys.key("every", &LateStepsOptions::every,
           "distance between drops; auto: they divide the rest of the run evenly",
           {.min = 0.0, .max = 1e9, .open_min = true, .keyword = "auto"});
  return ScheduleRegistry::entry<LateStepsOptions>(
      "late_steps", "constant for most of the run, then × gamma a few times (GNMT)", describe_gamma(keys),
      [](const LateStepsOptions& o, const ScheduleContext& course) {
        return late_steps(course.lr, shape_of(o, course), course.warmup);
      });
}

}  // namespace

ScheduleRegistry& schedules() {
  static ScheduleRegistry family(
      {.what = "schedule", .help = "learning rate as a function of applied steps", .fallback = "constant"},
      {constant_entry(), step_entry(), multi_step_entry(), exponential_entry(), polynomial_entry(),
       cosine_entry(), one_cycle_entry(), inverse_sqrt_entry(), late_steps_entry()});
  return family;
}

const options::Schema& ScheduleOptions::schema() {
  static const options::Schema schema =
      options::Describe<ScheduleOptions>()
          .choice(&ScheduleOptions::kind)
          .key("warmup_steps", &ScheduleOptions::warmup_steps, "applied steps of warm-up",
               {.min = 0, .max = 1e9})
          .key("warmup_epochs", &ScheduleOptions::warmup_epochs, "warm-up in epochs; added to warmup_steps",
               {.min = 0, .max = 1e6})
          .key("warmup_start", &ScheduleOptions::warmup_start,
               "first factor of the warm-up; auto: 1/(steps + 1), or 0.01 for an exponential warm-up",
               {.min = 0.0, .max = 1.0, .keyword = "auto"})
          .key("warmup_form", &ScheduleOptions::warmup_form,
               "linear: equal increments; exponential: equal factors")
          .rule("warmup_start", "an exponential warm-up cannot start from 0",
                [](const ScheduleOptions& o) {
                  return o.warmup_form != WarmupForm::exponential || o.warmup_start != 0.0;
                })
          .key("plateau", &ScheduleOptions::plateau,
               "lower the rate when evaluations stop improving by checkpoint.best; multiplies the schedule's "
               "rate")
          .options_of(&ScheduleOptions::kind)
          .short_key("name");
  return schema;
}

Schedule make_schedule(const ScheduleOptions& options, ScheduleContext course) {
  course.steps = std::max<std::int64_t>(course.steps, 1);
  const std::int64_t warmup = options.warmup_steps + in_steps(options.warmup_epochs, course);
  require(warmup == 0 || warmup < course.steps, "",
          "schedule: a warm-up of {} steps is not shorter than the run of {} steps", warmup, course.steps);
  if (warmup > 0) course.warmup = {warmup, options.warmup_start, options.warmup_form};
  return schedules().make(options.kind, course);
}

}  // namespace tandem::optim
