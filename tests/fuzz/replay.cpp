// fuzz_replay [TARGET [FILE | FOLDER]…]: runs inputs through a target; without files, its corpus; without a
// target, all corpora. Prints one line per target; exits with 1 when an input ends in anything but success,
// UserError or VendorError. fuzz_replay (safetensors | npy) --describe < NAMES: reads the files named on
// standard input, one per line, and prints their contents, for tests/fuzz/differential.py.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/fuzz/describe.h"
#include "tests/fuzz/target.h"

using namespace tandem;

namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> files_below(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

// The number of findings.
int replay(const fuzz::Target& target, const std::vector<fs::path>& places) {
  int inputs = 0, accepted = 0, findings = 0;
  for (const fs::path& place : places) {
    for (const fs::path& file : files_below(place)) {
      fmt::print("{}: ", file.string());
      std::fflush(stdout);  // the last name is that of an input that ends the program
      const std::string input = contents(file);
      ++inputs;
      try {
        std::string why;
        const bool sound = fuzz::run_guarded(target.run, std::as_bytes(std::span(input)), why);
        accepted += sound;
        fmt::print("{}\n", sound ? "accepted" : "refused: " + why);
      } catch (const std::exception& error) {
        ++findings;
        fmt::print("FINDING {}: {}\n", target.name, error.what());
      }
    }
  }
  fmt::print("{}: {} inputs, {} accepted, {} findings\n", target.name, inputs, accepted, findings);
  if (inputs == 0) fmt::print("FINDING {}: no inputs\n", target.name);
  return findings + (inputs == 0);
}

int describe(const std::string& format) {
  for (std::string name; std::getline(std::cin, name);) fmt::print("{}\n", fuzz::describe(format, name));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() == 2 && words[1] == "--describe") return describe(words[0]);
  int findings = 0, matched = 0;
  std::ranges::sort(fuzz::targets(), {}, [](const fuzz::Target& target) { return std::string(target.name); });
  for (const fuzz::Target& target : fuzz::targets()) {
    if (!words.empty() && words[0] != target.name) continue;
    ++matched;
    std::vector<fs::path> places(words.begin() + (words.empty() ? 0 : 1), words.end());
    if (places.empty()) places.push_back(fs::path(TANDEM_SOURCE_DIR) / "tests/fuzz/corpus" / target.name);
    findings += replay(target, places);
  }
  if (matched == 0) fmt::print(stderr, "there is no target {}\n", words[0]);
  return findings > 0 || matched == 0 ? 1 : 0;
}
