#include "train/run_directory.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "core/error.h"
#include "train/files.h"

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

RunDirectory RunDirectory::create(const std::string& pattern, const std::string& name,
                                  std::string_view config) {
  const std::string wanted = expanded(pattern, name);
  require(!wanted.empty(), "", "run_dir: is empty");
  std::error_code error;
  const fs::path parent = fs::path(wanted).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  // Of this thread alone, too.
  const fs::path beside = fmt::format("{}-{}", name_while_writing(wanted), ::gettid());
  if (!error) fs::create_directories(beside / "checkpoints", error);
  if (!error) {
    try {
      write_atomically((beside / "config.json").string(), config);
      for (int copy = 1; copy < 10000; ++copy) {
        fs::path path = copy == 1 ? wanted : fmt::format("{}-{}", wanted, copy);
        // Takes the place of nothing but an empty directory: two runs never share one.
        if (::rename(beside.c_str(), path.c_str()) == 0) {
          synchronise_folder(parent);
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
  throw VendorError("", fmt::format("{}: the run directory cannot be made: {}", wanted, reason));
}

RunDirectory RunDirectory::open(const std::string& path) {
  std::error_code error;
  require(fs::is_directory(path, error), "", "{}: no such run directory", path);
  require(fs::is_regular_file(fs::path(path) / "config.json", error), "",
          "{}: no run directory: it has no config.json", path);
  return RunDirectory(path);
}

RunLock::RunLock(const RunDirectory& run)
    : folder_(::open(run.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ >= 0 && ::flock(folder_, LOCK_EX | LOCK_NB) == 0) return;
  const int reason = errno;
  if (folder_ >= 0) ::close(folder_);
  require(reason != EWOULDBLOCK, "", "{}: another process is training this run", run.path().string());
  // Some network file systems have no locks; the run is not refused for that.
  folder_ = -1;
  if (reason == ENOLCK || reason == ENOTSUP || reason == ENOSYS) return;
  throw VendorError("", fmt::format("{}: cannot be locked: {}", run.path().string(), std::strerror(reason)));
}

RunLock::~RunLock() {
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace tandem::train
