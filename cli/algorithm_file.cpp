#include "cli/algorithm_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "config/compose.h"
#include "core/algorithms.h"
#include "core/backend.h"
#include "core/error.h"
#include "files/input.h"
#include "files/output.h"
#include "files/write.h"

namespace tandem::cli {

namespace {

namespace fs = std::filesystem;

AlgorithmTable read_table(const std::string& path, const std::string& text) try {
  return read_algorithms(text);
} catch (const UserError& error) {
  throw UserError("", fmt::format("{}: {}", path, error.what()));
}

AlgorithmTable table_of(const Backend& backend) { return read_algorithms(backend.tuning_cache()); }

// Loads the table from `path` into the device. Returns false, with a remark, if it is for another device or
// library.
bool adopt(Backend& backend, const std::string& text, const std::string& path, const char* what_then) {
  const AlgorithmTable table = read_table(path, text);
  if (backend.adopt_tuning_cache(text)) return true;
  output::remark("tandem: {}: algorithms of {}, and this is {}: they are timed again{}\n", path,
                 maker_of(table), maker_of(table_of(backend)), what_then);
  return false;
}

// The folder of the repository's tables; empty if the program is not in a repository.
fs::path shipped_folder() {
  for (const std::string& configs : config::shipped_directories()) {
    const fs::path folder = fs::path(configs).parent_path() / "tests" / "gpu" / "algorithms";
    if (files::kind_of(folder) == files::Kind::folder) return folder;
  }
  return {};
}

}  // namespace

AlgorithmFile::AlgorithmFile(const config::Config& config, Device device, std::string path)
    : backend_(backend_for(device)), path_(std::move(path)) {
  if (backend_.tuning_cache().empty() || !config.autotune || config.deterministic) {
    if (!path_.empty())
      output::remark(
          "tandem: {}: neither read nor written: no algorithms are timed on this device and configuration\n",
          path_);
    path_.clear();
    return;
  }
  if (const auto text = path_.empty() ? std::nullopt : files::read_text_if_there(path_)) {
    if (adopt(backend_, *text, path_, ", and the file stays unchanged")) return;
    path_.clear();
  }
  take_shipped();
}

void AlgorithmFile::take_shipped() const {
  const fs::path folder = shipped_folder();
  if (folder.empty()) return;
  const AlgorithmTable own = table_of(backend_);
  const std::string path = folder / file_name_of(own);
  if (const auto text = files::read_text_if_there(path)) {
    adopt(backend_, *text, path, "");
    return;
  }
  std::vector<std::string> alike;  // tables for this GPU
  for (const auto& entry : files::entries_of(folder)) {
    if (const std::string name = entry.path().filename(); name.starts_with(file_prefix_of(own)))
      alike.push_back(name);
  }
  output::remark("tandem: {} has no {}{}: algorithms are timed now; --algorithms FILE stores the choices\n",
                 folder.string(), file_name_of(own),
                 alike.empty() ? std::string() : fmt::format(" (it has {})", fmt::join(alike, ", ")));
}

void AlgorithmFile::save() {
  if (path_.empty()) return;
  const std::string text = backend_.tuning_cache();
  if (text == saved_) return;
  AlgorithmTable table = read_algorithms(text);
  // Other processes may have updated the file.
  if (const auto written = files::read_text_if_there(path_)) {
    AlgorithmTable there = read_table(path_, *written);
    if (there.fits(table)) table.choices.merge(there.choices);
  }
  files::write_atomically(path_, to_text(table));
  saved_ = text;
}

nlohmann::ordered_json AlgorithmFile::to_json() const {
  auto list = nlohmann::ordered_json::array();
  if (backend_.tuning_cache().empty()) return list;
  for (const auto& [what, choice] : table_of(backend_).choices) {
    auto times = nlohmann::ordered_json::object();
    for (const auto& [name, milliseconds] : choice.milliseconds) times[name] = milliseconds;
    list.push_back({{"what", what}, {"choice", choice.name}, {"ms", times}});
  }
  return list;
}

}  // namespace tandem::cli
