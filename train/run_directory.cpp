#include "train/run_directory.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <ctime>

#include "core/error.h"

namespace tandem::train {

namespace fs = std::filesystem;

namespace {

std::string expanded(const std::string& pattern, const std::string& name) {
  std::string path;
  for (std::size_t at = 0; at < pattern.size();) {
    const std::size_t close = pattern[at] == '{' ? pattern.find('}', at) : std::string::npos;
    if (close == std::string::npos) {
      path += pattern[at++];
      continue;
    }
    const std::string word = pattern.substr(at + 1, close - at - 1);
    require(word == "name" || word == "time", "",
            "run_dir: unknown {{{}}} in \"{}\"; there are {{name}} and {{time}}", word, pattern);
    path += word == "name" ? name : fmt::format("{:%Y%m%d-%H%M%S}", fmt::localtime(std::time(nullptr)));
    at = close + 1;
  }
  return path;
}

}  // namespace

RunDirectory RunDirectory::create(const std::string& pattern, const std::string& name) {
  const std::string wanted = expanded(pattern, name);
  require(!wanted.empty(), "", "run_dir: is empty");
  std::error_code error;
  if (const fs::path parent = fs::path(wanted).parent_path(); !parent.empty())
    fs::create_directories(parent, error);
  for (int copy = 1; copy < 10000; ++copy) {
    fs::path path = copy == 1 ? wanted : fmt::format("{}-{}", wanted, copy);
    if (fs::create_directory(path, error)) {  // exclusive: two runs never share one
      fs::create_directory(path / "checkpoints", error);
      if (error) break;
      return RunDirectory(std::move(path));
    }
    if (error && error != std::errc::file_exists) break;
  }
  throw VendorError("", fmt::format("{}: the run directory cannot be made: {}", wanted, error.message()));
}

RunDirectory RunDirectory::open(const std::string& path) {
  std::error_code error;
  require(fs::is_directory(path, error), "", "{}: no such run directory", path);
  require(fs::is_regular_file(fs::path(path) / "config.json", error), "",
          "{}: no run directory: it has no config.json", path);
  return RunDirectory(path);
}

}  // namespace tandem::train
