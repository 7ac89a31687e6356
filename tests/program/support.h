// Runs the built program as a user would: arguments in; exit code, stdout and stderr out.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/temporary_files.h"

namespace tandem::testing {

struct Outcome {
  int exit_code = -1;  // 128 + n for a process ended by signal n
  std::string out, err;
};

// Where stdout or stderr of the program leads.
enum class Sink {
  kept,       // into the Outcome
  full_disk,  // /dev/full
  unread,     // a pipe whose reader has gone
  closed
};

struct Launch {
  std::vector<std::string> arguments;
  std::string directory;                                // working directory
  std::map<std::string, std::string> environment = {};  // on top of the test's own
  // Called again and again while the program runs; returns a signal to send, or 0.
  std::function<int()> watch = {};
  Sink out = Sink::kept, err = Sink::kept;
  std::size_t largest_file = 0;  // in bytes, of what the program may write; 0: without limit
  const char* program = tandem::test::program_path();
};

Outcome launch(const Launch& launch);

// The program in a directory of the test.
inline Outcome tandem_in(const TemporaryDirectory& directory, std::vector<std::string> arguments) {
  return launch({.arguments = std::move(arguments), .directory = directory.path().string()});
}

// The folder of the newest checkpoint of a run.
inline std::filesystem::path newest_checkpoint(const std::filesystem::path& run) {
  std::string name = read_text(run / "checkpoints" / "latest");
  if (!name.empty()) name.pop_back();
  return run / "checkpoints" / name;
}

// "weights" or "state" of the newest checkpoint, byte for byte.
inline std::string saved(const std::filesystem::path& run, const std::string& what) {
  return read_text(newest_checkpoint(run) / (what + ".safetensors"));
}

// The bytes of its tensors, without the header, which says where they came from.
inline std::string saved_tensors(const std::filesystem::path& run, const std::string& what) {
  const std::string file = saved(run, what);
  std::uint64_t length = 0;
  if (file.size() >= sizeof length) std::memcpy(&length, file.data(), sizeof length);
  return file.size() >= sizeof length + length ? file.substr(sizeof length + length) : std::string();
}

std::vector<nlohmann::json> json_lines(const std::filesystem::path& path);
// What a run logged of a kind, of one phase where that is named; and the last that it logged.
std::vector<nlohmann::json> events_of(const std::filesystem::path& run, const std::string& kind,
                                      const std::string& phase = "");
nlohmann::json end_of(const std::filesystem::path& run);
// Whether two runs evaluated alike all along, and ended with the same weights and state to the bit.
bool same_end(const std::filesystem::path& a, const std::filesystem::path& b);

inline std::size_t line_count(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

// One list after the other.
std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& then);

// Requires that it went well.
Outcome must(Outcome outcome);
// Expects a mistake of the user, exit code 2 and one line, which is returned.
std::string refused(const Outcome& outcome);

}  // namespace tandem::testing
