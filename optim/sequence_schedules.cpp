// Schedules for translation: inverse square root, and GNMT's late steps.
#include "optim/schedule_parts.h"

namespace tandem::optim {

Schedule inverse_sqrt(double lr, Warmup warmup) {
  check("inverse_sqrt", lr, warmup);
  check_count("inverse_sqrt", "warmup_steps", warmup.steps);
  const auto start = static_cast<double>(warmup.steps);
  return multiplied(lr, warmup, [=](std::int64_t t) {
    return t < warmup.steps ? lr : lr * std::sqrt(start / static_cast<double>(t));
  });
}

namespace {

struct InverseSqrtOptions {};

}  // namespace

ScheduleRegistry::Entry inverse_sqrt_entry() {
  return ScheduleRegistry::entry<InverseSqrtOptions>(
      "inverse_sqrt", "lr·√(warmup_steps / step) after the warm-up, which is required",
      options::Describe<InverseSqrtOptions>(), [](const InverseSqrtOptions&, const ScheduleContext& course) {
        require(course.warmup.steps > 0, "",
                "schedule: inverse_sqrt starts at the end of a warm-up, but there is none; give "
                "schedule.warmup_steps or warmup_epochs");
        return inverse_sqrt(course.lr, course.warmup);
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

}  // namespace

ScheduleRegistry::Entry late_steps_entry() {
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

}  // namespace tandem::optim
