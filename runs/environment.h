// Causes of a result besides the configuration: build, libraries, processor, threads, memory, devices.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tandem::runs {

// One object with "version", "build", "compiler", "libraries", "cpu", "amx", "threads", "waiting" (how
// threads wait for each other), "openmp" (its environment variables), "memory_bytes", "devices", and "cuda"
// (the reason why there is no CUDA device, or null).
nlohmann::ordered_json environment();

// The same as text for people, one fact per line.
std::string environment_text(const nlohmann::ordered_json& environment);

}  // namespace tandem::runs
