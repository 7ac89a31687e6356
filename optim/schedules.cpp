#include "optim/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/suggest.h"

namespace tandem::optim {

namespace {

using Function = Schedule::Function;

void check(const char* where, double lr, const Warmup& warmup) {
  require(std::isfinite(lr) && lr >= 0.0, where, "lr must be a number of at least 0, is {}", lr);
  require(warmup.steps >= 0, where, "warmup_steps must be at least 0, is {}", warmup.steps);
  const double start = warmup.start.value_or(0.0);
  require(start >= 0.0 && start <= 1.0, where, "warmup_start must lie in [0, 1], is {}", start);
}

void check_count(const char* where, const char* key, std::int64_t value) {
  require(value >= 1, where, "{} must be at least 1, is {}", key, value);
}

double warmup_factor(const Warmup& warmup, std::int64_t t) {
  const double steps = static_cast<double>(warmup.steps);
  const double start = warmup.start.value_or(1.0 / (steps + 1.0));
  return start + (1.0 - start) * static_cast<double>(t) / steps;
}

// For schedules without an end.
Schedule multiplied(double lr, Warmup warmup, Function rate) {
  if (warmup.steps == 0) return {lr, std::move(rate)};
  return {lr, [warmup, rate = std::move(rate)](std::int64_t t) {
            return t < warmup.steps ? warmup_factor(warmup, t) * rate(t) : rate(t);
          }};
}

// For schedules that end: `rate` is a function of the step since the warm-up.
Schedule preceded(double lr, Warmup warmup, Function rate) {
  return {lr, [warmup, rate = std::move(rate)](std::int64_t t) {
            return t < warmup.steps ? warmup_factor(warmup, t) * rate(0) : rate(t - warmup.steps);
          }};
}

// The steps that remain after the warm-up.
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

Schedule step(double lr, std::int64_t every, double gamma, Warmup warmup) {
  check("step", lr, warmup);
  check_count("step", "every", every);
  require(gamma > 0.0, "step", "gamma must be positive, is {}", gamma);
  return multiplied(lr, warmup, [=](std::int64_t t) {
    const std::int64_t drops = t / every;
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
  // Ends of the phases, in steps; a run too short for a rise starts at the top.
  const double top = std::max(0.0, shape.rise * (last + 1.0) - 1.0);
  const double back = shape.three_phase ? std::max(top, 2.0 * shape.rise * (last + 1.0) - 2.0) : top;
  return preceded(lr, warmup, [=](std::int64_t step) {
    const double t = std::min(static_cast<double>(step), last);
    if (t <= top) return top > 0.0 ? between(initial, lr, t / top) : lr;
    if (t <= back) return between(lr, initial, (t - top) / (back - top));
    return between(shape.three_phase ? initial : lr, final, (t - back) / (last - back));
  });
}

// ---- By name ----

const std::vector<ScheduleInfo>& schedules() {
  static const std::vector<ScheduleInfo> list = {
      {"constant", "the same rate throughout", {}, {}},
      {"step", "× gamma every so many steps", {"every"}, {"gamma"}},
      {"multi_step", "× gamma at given steps", {"milestones"}, {"gamma"}},
      {"exponential", "× gamma per step (or per `every` steps), continuously", {"gamma"}, {"every"}},
      {"polynomial", "down to end_lr as a power of the steps left", {"steps"}, {"power", "end_lr"}},
      {"cosine", "down to end_lr along half a cosine", {"steps"}, {"end_lr"}},
      {"one_cycle",
       "up from a low rate and down to a lower one",
       {"steps"},
       {"rise", "div_factor", "final_div_factor", "linear", "three_phase"}},
  };
  return list;
}

namespace {

const ScheduleInfo& schedule_info(std::string_view name) {
  std::vector<std::string> known;
  for (const ScheduleInfo& info : schedules()) {
    if (info.name == name) return info;
    known.push_back(info.name);
  }
  throw UserError("schedule", fmt::format("there is no schedule \"{}\"{}", name, did_you_mean(name, known)));
}

void check_options(const ScheduleInfo& info, const ScheduleOptions& o) {
  const auto takes = [&](const char* key) {
    return std::ranges::find(info.required, key) != info.required.end() ||
           std::ranges::find(info.optional, key) != info.optional.end();
  };
  const auto check = [&](const char* key, bool given) {
    require(!given || takes(key), info.name, "this schedule takes no {}", key);
    require(given || std::ranges::find(info.required, key) == info.required.end(), info.name, "{} is missing",
            key);
  };
  require(o.lr.has_value(), info.name, "lr is missing");
  check("every", o.every.has_value());
  check("gamma", o.gamma.has_value());
  check("milestones", o.milestones.has_value());
  check("power", o.power.has_value());
  check("end_lr", o.end_lr.has_value());
  check("rise", o.rise.has_value());
  check("div_factor", o.div_factor.has_value());
  check("final_div_factor", o.final_div_factor.has_value());
  check("linear", o.linear.has_value());
  check("three_phase", o.three_phase.has_value());
  if (takes("steps")) require(o.steps.has_value(), info.name, "steps is missing");
}

}  // namespace

Schedule make_schedule(std::string_view name, const ScheduleOptions& o) {
  const ScheduleInfo& info = schedule_info(name);
  check_options(info, o);
  const Warmup warmup{o.warmup_steps.value_or(0), o.warmup_start};
  const double lr = *o.lr;
  if (name == "constant") return constant(lr, warmup);
  if (name == "step") return step(lr, *o.every, o.gamma.value_or(0.1), warmup);
  if (name == "multi_step") return multi_step(lr, *o.milestones, o.gamma.value_or(0.1), warmup);
  if (name == "exponential") return exponential(lr, *o.gamma, o.every.value_or(1), warmup);
  if (name == "polynomial")
    return polynomial(lr, *o.steps, o.power.value_or(1.0), o.end_lr.value_or(0.0), warmup);
  if (name == "cosine") return cosine(lr, *o.steps, o.end_lr.value_or(0.0), warmup);
  ensure(name == "one_cycle", "schedule", "{} is listed but not made", name);
  OneCycle shape;
  shape.rise = o.rise.value_or(shape.rise);
  shape.div_factor = o.div_factor.value_or(shape.div_factor);
  shape.final_div_factor = o.final_div_factor.value_or(shape.final_div_factor);
  shape.linear = o.linear.value_or(false);
  shape.three_phase = o.three_phase.value_or(false);
  return one_cycle(lr, *o.steps, shape, warmup);
}

}  // namespace tandem::optim
