// A directory with a configuration, in which runs are trained by name.
#pragma once

#include "tests/program/support.h"

namespace tandem::testing {

class Project {
 public:
  // "config.json" is `config` with `patch` merged into it.
  explicit Project(nlohmann::json config, const nlohmann::json& patch = nlohmann::json::object(),
                   const char* program = tandem::test::program_path());

  std::filesystem::path operator/(const std::string& name) const { return directory_ / name; }

  using Watch = std::function<int()>;
  using Environment = std::map<std::string, std::string>;
  Outcome run(std::vector<std::string> arguments, const Watch& watch = {},
              const Environment& environment = {}) const;
  // Trains into a directory of that name.
  Outcome train(const std::string& name, const std::vector<std::string>& more = {}, const Watch& watch = {},
                const Environment& environment = {}) const;

  Outcome must(const std::vector<std::string>& arguments) const;
  void must_train(const std::string& name, const std::vector<std::string>& more = {}) const;
  std::string refused(const std::vector<std::string>& arguments) const;
  // Nothing is left of it, either.
  std::string refused_to_train(const std::vector<std::string>& changes) const;

  std::vector<nlohmann::json> events(const std::string& run, const std::string& kind,
                                     const std::string& phase = "") const {
    return events_of(*this / run, kind, phase);
  }
  bool same_end(const std::string& a, const std::string& b) const {
    return tandem::testing::same_end(*this / a, *this / b);
  }

  // Trains "whole" + suffix, and "parts" + suffix for so many steps and then to the end: they end alike.
  void check_goes_on(const std::string& suffix, const std::vector<std::string>& settings, int steps) const;
  // Trains into a directory of that name, and kills it when its metrics have more than `first` bytes, then
  // 1, 2, … times `every`, until it ends; how often that was.
  int train_killed(const std::string& name, const std::vector<std::string>& settings, std::uintmax_t first,
                   std::uintmax_t every) const;
  // Trains "retried" in AMP-FP16 with a loss scale that overflows, and "plain" with the one that was left:
  // they end with the same weights. One overflow lowers the scale so far that no other follows.
  void check_retries() const;
  // All but a few, which `besides` adds; "run" is a run. `compare` leaves "compared".
  void check_commands(const std::vector<std::vector<std::string>>& besides) const;

 private:
  TemporaryDirectory directory_;
  const char* program_;
};

// Kills a run when its metrics have more than so many bytes.
Project::Watch killing(const std::filesystem::path& run, std::uintmax_t bytes);

}  // namespace tandem::testing
