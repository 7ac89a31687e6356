// Shared parts of schedules: checks, warm-up, and common options.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "optim/schedules.h"

namespace tandem::optim {

// Unit of a length.
enum class Unit : std::uint8_t { epochs, steps };

}  // namespace tandem::optim

template <>
struct tandem::options::EnumNames<tandem::optim::Unit> {
  static constexpr std::array values{"epochs", "steps"};
};

namespace tandem::optim {

void check(const char* where, double lr, const Warmup& warmup);
void check_count(const char* where, const char* key, std::int64_t value);

// For schedules without an end: warm-up multiplies `rate`.
Schedule multiplied(double lr, Warmup warmup, Schedule::Function rate);
// For schedules with an end: `rate` counts steps from the end of warm-up.
Schedule preceded(double lr, Warmup warmup, Schedule::Function rate);

std::int64_t in_steps(double epochs, const ScheduleContext& course);
// In steps, at least 1.
std::int64_t counted(double count, Unit unit, const ScheduleContext& course);

// Entries of schedules defined in other files.
ScheduleRegistry::Entry inverse_sqrt_entry();
ScheduleRegistry::Entry late_steps_entry();

template <class Options>
void describe_unit(options::Describe<Options>& keys, const char* of = "unit of `every` and `milestones`") {
  keys.key("unit", &Options::unit, of);
}

template <class Options>
options::Describe<Options>& describe_gamma(options::Describe<Options>& keys) {
  return keys.key("gamma", &Options::gamma, "factor on the rate at each drop",
                  {.min = 0.0, .max = 1.0, .open_min = true, .keyword = "auto"});
}

}  // namespace tandem::optim
