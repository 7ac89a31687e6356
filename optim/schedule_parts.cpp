#include "optim/schedule_parts.h"

namespace tandem::optim {

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

namespace {

// At step t < warmup.steps.
double warmup_factor(const Warmup& warmup, std::int64_t t) {
  const double steps = static_cast<double>(warmup.steps);
  const double part = static_cast<double>(t) / steps;
  if (warmup.form == WarmupForm::exponential)
    return std::pow(warmup.start.value_or(kExponentialStart), 1.0 - part);
  const double start = warmup.start.value_or(1.0 / (steps + 1.0));
  return start + (1.0 - start) * part;
}

}  // namespace

Schedule multiplied(double lr, Warmup warmup, Schedule::Function rate) {
  if (warmup.steps == 0) return {lr, std::move(rate)};
  return {lr, [warmup, rate = std::move(rate)](std::int64_t t) {
            return t < warmup.steps ? warmup_factor(warmup, t) * rate(t) : rate(t);
          }};
}

Schedule preceded(double lr, Warmup warmup, Schedule::Function rate) {
  return {lr, [warmup, rate = std::move(rate)](std::int64_t t) {
            return t < warmup.steps ? warmup_factor(warmup, t) * rate(0) : rate(t - warmup.steps);
          }};
}

std::int64_t in_steps(double epochs, const ScheduleContext& course) {
  return std::llround(epochs * static_cast<double>(course.steps_per_epoch));
}

std::int64_t counted(double count, Unit unit, const ScheduleContext& course) {
  return std::max<std::int64_t>(unit == Unit::steps ? std::llround(count) : in_steps(count, course), 1);
}

}  // namespace tandem::optim
