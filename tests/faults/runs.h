// Small training runs with faults, and the results that must not change.
#pragma once

#include <set>

#include "tests/program/support.h"

namespace tandem::testing {

// Processes under a sanitizer start slowly: every so many cases are tried there.
#ifdef TANDEM_SANITIZED
inline constexpr int kStride = 17;
#else
inline constexpr int kStride = 1;
#endif

inline std::vector<std::string> quiet_run(const std::string& run, const std::vector<std::string>& settings) {
  return joined({"train", "digits_mlp", "run_dir=" + run, "threads=1", "data.workers=0", "--quiet"},
                settings);
}

// A run of two epochs of four steps, with checkpoints after every epoch and inside.
inline std::vector<std::string> small_run(const std::string& run, const std::vector<std::string>& more = {}) {
  return quiet_run(run, joined({"epochs=2", "data.batch_size=400", "checkpoint.every_steps=3"}, more));
}

// A run of many steps, some of them skipped, in accumulations of two, that takes some seconds.
inline std::vector<std::string> long_run(const std::string& run) {
  return quiet_run(run, {"epochs=400", "data.batch_size=50", "checkpoint.every_steps=4", "precision=amp_fp16",
                         "model.dropout=0.1", "accumulate=2", "ema={\"decay\": 0.99}",
                         R"(precision.scaler={"initial": 65536, "interval": 7})"});
}

// What a run leaves that does not depend on the clock: weights, state and where it stands byte for byte, and
// its events.
struct Remains {
  std::string weights, state, stands;
  std::vector<std::string> events;
  std::multiset<std::int64_t> saves;  // steps of its checkpoint events, which an interruption adds to

  explicit Remains(const std::filesystem::path& run)
      : weights(saved(run, "weights")),
        state(saved(run, "state")),
        stands(read_text(newest_checkpoint(run) / "run.json")) {
    for (nlohmann::json& event : json_lines(run / "metrics.jsonl")) {
      const std::string kind = event["event"];
      if (kind == "checkpoint") saves.insert(event["step"].get<std::int64_t>());
      if (kind != "step" && kind != "eval" && kind != "overflow") continue;
      event.erase("items_per_s");
      events.push_back(event.dump());
    }
  }
  bool operator==(const Remains& other) const {
    return weights == other.weights && state == other.state && stands == other.stands &&
           events == other.events;
  }
};

// Goes on with a run, or starts it where nothing of it is there.
inline Outcome go_on(const TemporaryDirectory& directory, const std::string& run,
                     const std::vector<std::string>& start) {
  if (!std::filesystem::exists(directory.path() / run / "config.json")) return tandem_in(directory, start);
  return tandem_in(directory, {"train", run, "--quiet"});
}

using Environment = std::map<std::string, std::string>;

// Runs the program with one of its calls on files hurt (faults.cpp).
inline Outcome with_faults(const TemporaryDirectory& directory, const std::vector<std::string>& arguments,
                           const std::string& fault, const std::string& path, const Environment& more = {}) {
  Environment environment{{"LD_PRELOAD", TANDEM_FAULTS},
                          {"TANDEM_FAULT", fault},
                          {"TANDEM_FAULT_PATH", path},
                          {"TANDEM_FAULT_LOG", directory.path() / "calls"}};
  // The sanitizer's runtime would have to be the first library.
  environment["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0";
  environment.insert(more.begin(), more.end());
  return launch({.arguments = arguments, .directory = directory.path().string(), .environment = environment});
}

// The calls on `path` that a run makes, in their order: "open", "write" and so on.
inline std::vector<std::string> calls_of(const TemporaryDirectory& directory,
                                         const std::vector<std::string>& settings, const std::string& path) {
  REQUIRE(with_faults(directory, small_run("run", settings), "count", path).exit_code == 0);
  std::filesystem::remove_all(directory.path() / "run");
  std::vector<std::string> calls;
  std::ifstream log(directory.path() / "calls");
  std::string number, call, name;
  while (log >> number >> call && std::getline(log, name)) calls.push_back(call);
  return calls;
}

}  // namespace tandem::testing
