#include "studies/compare/speed.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "files/input.h"
#include "files/json_text.h"
#include "files/write.h"
#include "studies/compare/process.h"
#include "studies/compare/runner.h"
#include "studies/compare/statistics.h"

namespace tandem::compare {

namespace fs = std::filesystem;

namespace {

using config::Json;

constexpr const char* kModes[] = {"compute", "loader"};

Json json_of(const Block& block) {
  return {{"side", block.side},   {"mode", block.mode},      {"round", block.round},
          {"block", block.block}, {"steps", block.steps},    {"applied", block.applied},
          {"items", block.items}, {"seconds", block.seconds}};
}

Block block_of(const Json& json) {
  return {json.at("side"),  json.at("mode"),    json.at("round"), json.at("block"),
          json.at("steps"), json.at("applied"), json.at("items"), json.at("seconds")};
}

// One side of a round: a process `tandem bench --serve`, which runs a block for every input line.
class Side {
 public:
  Side(const Experiment& experiment, const Arm& arm, const train::StopRequest& stop)
      : name_(arm.name), stop_(stop), process_(arguments(experiment, arm), stop) {
    answer();  // ready
  }

  Block run(const char* mode, std::int64_t steps) {
    process_.send(fmt::format("{} {}", mode, steps));
    const Json found = answer();
    Block block;
    block.side = name_;
    block.mode = mode;
    block.steps = found.at("steps");
    block.applied = found.at("applied");
    block.items = found.at("items");
    block.seconds = found.at("seconds");
    return block;
  }

  Json memory() {
    process_.send("memory");
    return answer();
  }

 private:
  static std::vector<std::string> arguments(const Experiment& experiment, const Arm& arm) {
    std::vector<std::string> words{"bench", experiment.config};
    const auto more = experiment.arguments(arm);
    words.insert(words.end(), more.begin(), more.end());
    words.emplace_back("--serve");
    return words;
  }

  Json answer() {
    const auto line = process_.read_line();
    if (stop_.asked()) throw Interrupted();
    if (line) return Json::parse(*line);
    throw VendorError(
        "", fmt::format("the speed of {} cannot be measured: {}", name_, process_.finish().last_line()));
  }

  std::string name_;
  const train::StopRequest& stop_;
  Process process_;
};

class SpeedOfArm {
 public:
  SpeedOfArm(const Experiment& experiment, const Arm& arm, const train::StopRequest& stop)
      : experiment_(experiment),
        arm_(arm),
        stop_(stop),
        file_(experiment.arm_directory(arm) / "speed.json") {}

  // An earlier measurement with the same configuration and number of rounds.
  std::optional<ArmSpeed> saved() const {
    const Json json = Json::parse(files::read_text_if_there(file_).value_or(""), nullptr, false);
    if (!json.is_object() || json.value("for", Json()) != key()) return {};
    ArmSpeed speed;
    for (const Json& block : json.at("blocks")) speed.blocks.push_back(block_of(block));
    take_memory(json.at("memory"), speed);
    finish(speed);
    return speed;
  }

  ArmSpeed measure() const {
    ArmSpeed speed;
    Json memory;
    for (std::int64_t round = 1; round <= experiment_.speed_rounds; ++round) {
      Side baseline(experiment_, experiment_.arms.front(), stop_), arm(experiment_, arm_, stop_);
      Side* const order[] = {&baseline, &arm, &arm, &baseline};
      for (const char* mode : kModes) {
        // A short block first, since the caches hold data of the other side.
        for (Side* side : {&baseline, &arm})
          side->run(mode, std::max<std::int64_t>(experiment_.speed_steps / 5, 1));
        for (int turn = 0; turn < 4; ++turn) {
          Block block = order[turn]->run(mode, experiment_.speed_steps);
          block.round = round;
          block.block = turn + 1;
          speed.blocks.push_back(std::move(block));
        }
      }
      if (round == 1) memory = arm.memory();
    }
    take_memory(memory, speed);
    finish(speed);
    save(speed, memory);
    return speed;
  }

 private:
  // Inputs that determine the measurement.
  Json key() const {
    const auto resolved = [&](const Arm& arm) {
      Json json = config::resolved(config::load(experiment_.config, experiment_.arguments(arm)).config);
      json.erase("run_dir");
      return json;
    };
    return {{"arm", resolved(arm_)},
            {"baseline", resolved(experiment_.arms.front())},
            {"steps", experiment_.speed_steps},
            {"rounds", experiment_.speed_rounds}};
  }

  static void take_memory(const Json& json, ArmSpeed& speed) {
    speed.peak_memory_bytes = json.at("peak_memory_bytes");
    for (const auto& [kind, bytes] : json.at("memory").items())
      speed.memory.emplace_back(kind, bytes.get<std::size_t>());
  }

  static void finish(ArmSpeed& speed) {
    speed.compute = ratio_of(speed.blocks, "compute");
    speed.loader = ratio_of(speed.blocks, "loader");
  }

  void save(const ArmSpeed& speed, const Json& memory) const {
    Json blocks = Json::array();
    for (const Block& block : speed.blocks) blocks.push_back(json_of(block));
    fs::create_directories(file_.parent_path());
    const Json json{{"for", key()}, {"blocks", blocks}, {"memory", memory}};
    files::write_atomically(file_, files::json_text(json, 1) + "\n");
  }

  const Experiment& experiment_;
  const Arm& arm_;
  const train::StopRequest& stop_;
  fs::path file_;
};

}  // namespace

std::optional<Ratio> ratio_of(const std::vector<Block>& blocks, const std::string& mode) {
  struct Sums {
    double items[2] = {0.0, 0.0}, seconds[2] = {0.0, 0.0};
  };
  std::map<std::int64_t, Sums> rounds;
  for (const Block& block : blocks) {
    if (block.mode != mode) continue;
    Sums& sums = rounds[block.round];
    const int side = block.block == 1 || block.block == 4 ? 0 : 1;
    sums.items[side] += static_cast<double>(block.items);
    sums.seconds[side] += block.seconds;
  }
  std::vector<double> ratios;
  for (const auto& [round, sums] : rounds)
    if (sums.items[0] > 0.0 && sums.seconds[1] > 0.0)
      ratios.push_back(sums.items[1] / sums.seconds[1] / (sums.items[0] / sums.seconds[0]));
  if (ratios.empty()) return {};
  return Ratio{quantile(ratios, 0.5), quantile(ratios, 0.1), quantile(ratios, 0.9)};
}

std::vector<std::optional<ArmSpeed>> measure_speed(const Experiment& experiment,
                                                   const train::StopRequest& stop,
                                                   const std::function<void(const std::string&)>& say) {
  std::vector<std::optional<ArmSpeed>> speeds;
  for (const Arm& arm : experiment.arms) {
    if (stop.asked()) throw Interrupted();
    if (arm.name == kNull) {
      speeds.emplace_back();
      continue;
    }
    const SpeedOfArm one(experiment, arm, stop);
    speeds.push_back(one.saved());
    if (speeds.back()) continue;
    speeds.back() = one.measure();
    if (const auto& ratio = speeds.back()->compute)
      say(fmt::format("speed of {}: {:.2f} × fp32", arm.name, ratio->median));
  }
  return speeds;
}

}  // namespace tandem::compare
