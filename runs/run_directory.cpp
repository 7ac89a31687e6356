#include "runs/run_directory.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>

#include "core/error.h"
#include "core/suggest.h"
#include "files/input.h"
#include "files/write.h"
#include "tasks/breakdown.h"

namespace tandem::runs {

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

// A directory is half made if it holds only files that exist during its creation.
bool is_half_made(const fs::path& directory) {
  std::error_code error;
  for (const auto& entry : files::entries_of(directory)) {
    const std::string name = entry.path().filename().string();
    const bool folder = name == "checkpoints" && fs::is_empty(entry.path(), error) && !error;
    if (!folder && name != "config.json" &&
        !(name.starts_with("config.json.") && files::is_being_written(name)))
      return false;
  }
  return true;
}

// Removes directories whose process ended during their creation.
void remove_abandoned_runs(const fs::path& folder) {
  std::error_code ignored;
  try {
    for (const auto& entry : files::entries_of(folder.empty() ? "." : folder)) {
      const bool directory = fs::is_directory(entry.symlink_status(ignored));
      if (directory && files::is_abandoned(entry.path()) && is_half_made(entry.path()))
        fs::remove_all(entry.path(), ignored);
    }
  } catch (const UserError&) {  // the folder cannot be listed: nothing is removed
  }
}

}  // namespace

RunDirectory RunDirectory::create(const std::string& pattern, const std::string& name,
                                  std::string_view config) {
  const std::string wanted = expanded(pattern, name);
  require(!wanted.empty(), "", "run_dir: is empty");
  std::error_code error;
  const fs::path parent = fs::path(wanted).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  // Unique to this thread.
  const fs::path beside = fmt::format("{}-{}", files::name_while_writing(wanted), ::gettid());
  if (!error) remove_abandoned_runs(parent);
  if (!error) fs::create_directories(beside / "checkpoints", error);
  if (!error) {
    try {
      files::write_atomically((beside / "config.json").string(), config);
      for (int copy = 1; copy < 10000; ++copy) {
        fs::path path = copy == 1 ? wanted : fmt::format("{}-{}", wanted, copy);
        // rename() replaces only an empty directory: two runs never share one.
        if (::rename(beside.c_str(), path.c_str()) == 0) {
          files::synchronise_folder(parent);
          return RunDirectory(std::move(path));
        }
        error.assign(errno, std::generic_category());
        if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) break;
      }
    } catch (...) {
      fs::remove_all(beside, error);
      throw;
    }
  }
  const std::string reason = error.message();
  fs::remove_all(beside, error);
  throw VendorError("", fmt::format("{}: the run directory cannot be created: {}", wanted, reason));
}

namespace {

// R"(; did you mean "runs/digits"?)", for a similar run in the same folder.
std::string nearest_run(const fs::path& path) {
  std::vector<std::string> runs;
  std::error_code error;
  const fs::path parent = path.parent_path();
  for (const auto& entry : fs::directory_iterator(parent.empty() ? fs::path(".") : parent, error))
    if (RunDirectory::is_run(entry.path())) runs.push_back((parent / entry.path().filename()).string());
  std::ranges::sort(runs);
  return did_you_mean(path.string(), runs);
}

}  // namespace

RunDirectory RunDirectory::open(const std::string& path) {
  require(files::kind_of(path) == files::Kind::folder, "", "{}: no such run directory{}", path,
          nearest_run(path));
  require(is_run(path), "", "{}: no run directory: it has no config.json", path);
  return RunDirectory(path);
}

bool RunDirectory::is_run(const fs::path& path) {
  return files::kind_of(path / "config.json") != files::Kind::absent;
}

void require_no_file_of_run(const fs::path& path, std::string_view option) {
  constexpr std::array kOwn{"config.json", "environment.json", "metrics.jsonl", "metrics.jsonl.sha256",
                            "metrics.csv", "tensorboard",      "plan.json",     "calibration.json",
                            "log.txt",     "checkpoints",      kAlgorithmsFile, tasks::kBreakdownFile};
  std::error_code error;
  const fs::path place = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) return;  // the writer reports it
  fs::path within;    // relative to `folder`
  for (fs::path folder = place;; folder = folder.parent_path()) {
    const bool run =
        fs::exists(folder / "config.json", error) && fs::is_directory(folder / "checkpoints", error);
    const std::string first = within.empty() ? "" : within.begin()->string();
    require(!run || !(first.empty() || std::ranges::find(kOwn, first) != kOwn.end()), "",
            "{} {}: {}; choose another path", option, path.string(),
            first.empty() ? "is the directory of a run"
                          : fmt::format("{} belongs to the run {}", within.string(), folder.string()));
    if (run || folder == folder.parent_path()) return;
    within = within.empty() ? folder.filename() : folder.filename() / within;
  }
}

RunLock::RunLock(const RunDirectory& run)
    : folder_(::open(run.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ >= 0 && ::flock(folder_, LOCK_EX | LOCK_NB) == 0) return;
  const int reason = errno;
  if (folder_ >= 0) ::close(folder_);
  require(reason != EWOULDBLOCK, "", "{}: another process is training this run", run.path().string());
  // Some network file systems have no locks; such runs are trained without.
  folder_ = -1;
  if (reason == ENOLCK || reason == ENOTSUP || reason == ENOSYS) return;
  throw VendorError("", fmt::format("{}: cannot be locked: {}", run.path().string(), std::strerror(reason)));
}

RunLock::~RunLock() {
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace tandem::runs
