#include "train/rank_facts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "files/digest.h"
#include "files/json_text.h"
#include "parallel/launch.h"

namespace tandem::train {

namespace {

constexpr const char* kSame = "same";

// The first leaf in which the two differ, or that only one of them has, with both values as JSON; "" if they
// are equal.
std::string difference(const Json& first, const Json& other, int rank, const std::string& path) {
  if (first.is_object() && other.is_object()) {
    for (const auto& [key, value] : first.items()) {
      const auto found = other.find(key);
      const std::string text = difference(value, found == other.end() ? Json() : *found, rank,
                                          path.empty() ? key : path + "." + key);
      if (!text.empty()) return text;
    }
    for (const auto& [key, value] : other.items())
      if (!first.contains(key)) return difference(Json(), value, rank, path.empty() ? key : path + "." + key);
    return "";
  }
  if (first == other) return "";
  return fmt::format("{} is {} on rank 0 and {} on rank {}", path, files::json_text(first),
                     files::json_text(other), rank);
}

// Ranks of a host use its GPUs in turn (device_of).
Json gpu_of_rank(const Json& devices) {
  std::vector<std::string> gpus;
  for (const Json& device : devices)
    if (device.get<std::string>().starts_with("cuda:")) gpus.push_back(device.get<std::string>());
  if (gpus.empty()) return nullptr;
  const auto launch = parallel::launch_from_environment();
  return gpus[static_cast<std::size_t>(launch ? launch->local_rank : 0) % gpus.size()];
}

}  // namespace

Json facts_of_rank(const Json& environment) {
  const Json& cpu = environment["cpu"];
  return {{"host", parallel::host_name()},
          {"cpu", cpu["model"]},
          {"level", cpu["level"]},
          {"threads", environment["threads"]},
          {"gpu", gpu_of_rank(environment["devices"])}};
}

Json facts_of_rank(const Json& environment, const Json& configuration, const tasks::Data& data) {
  Json facts = facts_of_rank(environment);
  facts[kSame] = {{"version", environment["version"]},
                  {"build", environment["build"]},
                  {"compiler", environment["compiler"]},
                  {"libraries", environment["libraries"]},
                  {"level", environment["cpu"]["level"]},
                  {"configuration", configuration},
                  {"data",
                   {{"training_samples", data.training_samples()},
                    {"description", files::sha256(files::json_text(data.description()))}}}};
  return facts;
}

std::optional<std::string> difference(std::span<const Json> facts) {
  for (std::size_t rank = 1; rank < facts.size(); ++rank) {
    const std::string text =
        difference(facts[0].at(kSame), facts[rank].at(kSame), static_cast<int>(rank), "");
    if (text.empty()) continue;
    const bool level = text.starts_with("level");
    return fmt::format("all ranks must have the same program, configuration and data: {}{}", text,
                       level ? "; set TANDEM_ISA to the lowest level of all ranks" : "");
  }
  return std::nullopt;
}

std::string text_of_rank(int rank, const Json& facts) {
  const auto threads = facts.at("threads").get<int>();
  const auto gpu = facts.find("gpu");
  return fmt::format("rank {}: {}, {}, level {}, {} thread{}{}", rank, facts.at("host").get<std::string>(),
                     facts.at("cpu").get<std::string>(), facts.at("level").get<std::string>(), threads,
                     threads == 1 ? "" : "s",
                     gpu == facts.end() || gpu->is_null() ? "" : ", " + gpu->get<std::string>());
}

}  // namespace tandem::train
