#include "runs/environment.h"

#include <Eigen/src/Core/util/Macros.h>
#include <dnnl.h>
#include <fmt/core.h>
#include <omp.h>
#include <spdlog/version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>

#include "core/build_info.h"
#include "core/cpu/level.h"
#include "core/cpu/openmp.h"
#include "core/cpu/parallel.h"
#include "core/device_library.h"
#include "core/units.h"

namespace tandem::runs {

namespace {

using Json = nlohmann::ordered_json;

Json libraries() {
  const dnnl_version_t* onednn = dnnl_version();
  return {{"oneDNN", fmt::format("{}.{}.{}", onednn->major, onednn->minor, onednn->patch)},
          {"Eigen", fmt::format("{}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION)},
          {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                        NLOHMANN_JSON_VERSION_PATCH)},
          {"CLI11", CLI11_VERSION},
          {"spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"OpenMP", _OPENMP}};
}

Json devices() {
  Json names = Json::array({"cpu"});
  for (int i = 0; i < cuda_devices().count; ++i)
    names.push_back(fmt::format("cuda:{} ({})", i, cuda_devices().library->describe(i)));
  return names;
}

Json system_name() {
  utsname name{};
  uname(&name);
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

Json openmp_variables() {
  Json found = Json::object();
  for (const auto& [name, value] : cpu::openmp_variables()) found[name] = value;
  return found;
}

}  // namespace

nlohmann::ordered_json environment() {
  const auto& features = cpu::cpu_features();
  const cpu::LevelChoice& level = cpu::level_choice();
  Json names = Json::array(), built = Json::array();
  for (const auto name : cpu::names_of(features)) names.push_back(std::string(name));
  for (const cpu::Level each : cpu::levels_built()) built.push_back(std::string(cpu::name_of(each)));
  const auto pages = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  return {{"version", version()},
          {"build", build_type()},
          {"compiler", compiler()},
          {"system", system_name()},
          {"libraries", libraries()},
          {"cpu",
           {{"model", cpu::cpu_model()},
            {"logical_cpus", cpu::available_cpus()},
            {"features", names},
            {"level", std::string(cpu::name_of(level.level))},
            {"level_reason", level.reason},
            {"levels_built", built},
            {"fast_bf16", cpu::has_bf16_products(level.level)}}},
          {"amx", std::string(cpu::name_of(cpu::request_amx()))},
          {"threads", cpu::threads()},
          {"waiting", cpu::waiting()},
          {"openmp", openmp_variables()},
          {"memory_bytes", pages * page},
          {"devices", devices()},
          {"cuda", cuda_devices().count > 0 ? Json(nullptr) : Json(cuda_devices().why_none)}};
}

std::string environment_text(const nlohmann::ordered_json& environment) {
  std::string text =
      fmt::format("Tandem        {} ({}, {})\n", environment["version"].get<std::string>(),
                  environment["build"].get<std::string>(), environment["compiler"].get<std::string>());
  const auto add = [&](const char* label, const std::string& value) {
    text += fmt::format("{:<14}{}\n", label, value);
  };
  const auto words = [](const Json& list) {
    std::string line;
    for (const auto& word : list)
      line += fmt::format("{}{}", line.empty() ? "" : " ", word.get<std::string>());
    return line;
  };
  add("system", environment["system"]);
  std::string libraries;
  for (const auto& [name, version] : environment["libraries"].items())
    libraries += fmt::format("{}{} {}", libraries.empty() ? "" : ", ", name,
                             version.is_string() ? version.get<std::string>() : version.dump());
  add("libraries", libraries);
  const auto& cpu = environment["cpu"];
  add("CPU",
      fmt::format("{}, {} logical CPUs", cpu["model"].get<std::string>(), cpu["logical_cpus"].get<int>()));
  add("features", words(cpu["features"]));
  add("level", fmt::format("{}: {}; kernels: {}", cpu["level"].get<std::string>(),
                           cpu["level_reason"].get<std::string>(), words(cpu["levels_built"])));
  const bool fast = cpu["fast_bf16"].get<bool>();
  add("AMX", environment["amx"].get<std::string>());
  add("BF16", fast ? "multiplied in hardware" : "widened to FP32 first: correct, but no faster than FP32");
  add("threads", environment["threads"].dump());
  add("waiting", environment["waiting"]);
  std::string variables;
  for (const auto& [name, value] : environment["openmp"].items())
    variables += fmt::format("{}{}={}", variables.empty() ? "" : " ", name, value.get<std::string>());
  if (!variables.empty()) add("OpenMP", variables);
  add("memory", bytes_text(environment["memory_bytes"].get<double>()));
  for (const auto& device : environment["devices"]) add("device", device);
  if (environment["cuda"].is_string()) add("CUDA", "no GPU: " + environment["cuda"].get<std::string>());
  return text;
}

}  // namespace tandem::runs
