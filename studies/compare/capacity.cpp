#include "studies/compare/capacity.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/units.h"
#include "studies/compare/process.h"
#include "studies/compare/runner.h"

namespace tandem::compare {

namespace {

constexpr std::int64_t kSmallest = 4, kAttempts = 8, kLargest = std::int64_t{1} << 24;

class ArmCapacity {
 public:
  ArmCapacity(const Experiment& experiment, const Arm& arm, const train::StopRequest& stop)
      : experiment_(experiment), arm_(arm), stop_(stop) {}

  Capacity find(std::size_t memory) const {
    const std::int64_t base = std::max<std::int64_t>(4 * kSmallest, 16);
    const auto low = static_cast<double>(peak(kSmallest)), high = static_cast<double>(peak(base));
    const double sample = std::max(1.0, (high - low) / static_cast<double>(base - kSmallest));
    const double fixed = low - sample * static_cast<double>(kSmallest);
    const double room = static_cast<double>(memory) - fixed;
    std::int64_t batch = std::clamp<std::int64_t>(static_cast<std::int64_t>(room / sample), 0, kLargest);
    for (int attempt = 0; attempt < kAttempts && batch > 0; ++attempt) {
      const std::size_t used = peak(batch);
      if (used <= memory) return {batch, used, memory};
      const double over = static_cast<double>(used - memory) / sample;
      batch -= std::max<std::int64_t>(1, static_cast<std::int64_t>(over) + 1);
    }
    return {0, 0, memory};
  }

 private:
  std::size_t peak(std::int64_t batch) const {
    std::vector<std::string> words{"bench", experiment_.config};
    const auto more = experiment_.arguments(arm_);
    words.insert(words.end(), more.begin(), more.end());
    words.push_back(fmt::format("data.batch_size={}", batch));
    for (const char* word : {"--steps", "1", "--warmup", "1", "--json"}) words.emplace_back(word);
    const Exit exit = run_program(words, stop_);
    if (stop_.asked()) throw Interrupted();
    if (exit.code != 0)
      throw VendorError("", fmt::format("the memory of {} for a batch of {} cannot be measured: {}",
                                        arm_.name, batch, exit.last_line()));
    return nlohmann::json::parse(exit.out).at("peak_memory_bytes");
  }

  const Experiment& experiment_;
  const Arm& arm_;
  const train::StopRequest& stop_;
};

}  // namespace

std::vector<std::optional<Capacity>> largest_batches(const Experiment& experiment, std::size_t memory,
                                                     const train::StopRequest& stop,
                                                     const std::function<void(const std::string&)>& say) {
  std::vector<std::optional<Capacity>> found;
  for (const Arm& arm : experiment.arms) {
    if (arm.name == kNull) {
      found.emplace_back();
      continue;
    }
    found.emplace_back(ArmCapacity(experiment, arm, stop).find(memory));
    say(fmt::format("{}: a batch of {} fits in {}", arm.name, found.back()->batch,
                    bytes_text(static_cast<double>(memory))));
  }
  return found;
}

std::size_t parse_bytes(const std::string& text) {
  const struct {
    const char* name;
    double bytes;
  } units[] = {{"", 1.0},   {"B", 1.0},      {"kB", 1e3},     {"MB", 1e6},
               {"GB", 1e9}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}};
  char* end = nullptr;
  const double count = std::strtod(text.c_str(), &end);
  std::string unit = end;
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size() : unit.find_first_not_of(' '));
  for (const auto& [name, bytes] : units)
    if (end != text.c_str() && unit == name && count > 0.0 && count * bytes < 0x1p60)
      return static_cast<std::size_t>(count * bytes);
  throw UserError(
      "",
      fmt::format("\"{}\" is not a memory size; expected a number and one of B, kB, MB, GB, KiB, MiB, GiB",
                  text));
}

}  // namespace tandem::compare
