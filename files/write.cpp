#include "files/write.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <vector>

#include "core/error.h"

namespace tandem::files {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kWriting = ".tmp-";
constexpr auto kAbandonedAfter = std::chrono::hours(1);

// Process of NAME.tmp-PID and NAME.tmp-PID-TID; absent for other names.
std::optional<pid_t> writer_of(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t at = name.rfind(kWriting);
  if (at == std::string::npos) return {};
  const char* const end = name.data() + name.size();
  pid_t process = 0, thread = 0;
  auto found = std::from_chars(name.data() + at + kWriting.size(), end, process);
  if (found.ec == std::errc() && found.ptr != end && *found.ptr == '-')
    found = std::from_chars(found.ptr + 1, end, thread);
  if (found.ec != std::errc() || found.ptr != end || process <= 0 || thread < 0) return {};
  return process;
}

std::string write_error_text(const std::string& path, const char* what, int reason) {
  return fmt::format("{}: cannot be {}: {}", path, what, std::strerror(reason));
}

[[noreturn]] void fail(const std::string& path, const char* what, int reason) {
  throw VendorError("", write_error_text(path, what, reason));
}

// Removes written bytes from `bytes`; returns whether all were written, else errno is set.
bool write_from(int file, std::string_view& bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

void write_synchronised(const std::string& path, std::span<const std::string_view> parts) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) fail(path, "created", errno);
  bool whole = true;
  for (std::string_view part : parts) whole = whole && write_from(file, part);
  whole = whole && ::fsync(file) == 0;
  int reason = whole ? 0 : errno;
  // Some file systems report a failed write only here.
  if (::close(file) != 0 && whole) reason = errno;
  if (reason == 0) return;
  ::unlink(path.c_str());
  fail(path, "written", reason);
}

void synchronise_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(path, "opened", errno);
  const int reason = ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  if (reason != 0) fail(path, "synchronised", reason);
}

void synchronise_folder(const fs::path& folder) {
  const std::string path = folder.empty() ? "." : folder.string();
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) fail(path, "opened", errno);
  const int reason = ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  // Ignores file systems without this operation.
  if (reason != 0 && reason != EINVAL && reason != ENOTSUP) fail(path, "synchronised", reason);
}

std::string name_while_writing(const std::string& path) {
  return fmt::format("{}{}{}", path, kWriting, ::getpid());
}

bool is_being_written(const fs::path& path) { return writer_of(path).has_value(); }

bool is_abandoned(const fs::path& path) {
  const auto writer = writer_of(path);
  if (!writer || ::kill(*writer, 0) == 0 || errno != ESRCH) return false;
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - written > kAbandonedAfter;
}

void remove_abandoned(const fs::path& folder, const std::string& prefix) {
  std::error_code ignored;
  fs::directory_iterator at(folder.empty() ? "." : folder, ignored);
  std::vector<fs::path> abandoned;
  for (; !ignored && at != fs::directory_iterator(); at.increment(ignored)) {
    const fs::path& path = at->path();
    if (path.filename().string().starts_with(prefix) && is_abandoned(path)) abandoned.push_back(path);
  }
  for (const fs::path& path : abandoned) ::unlink(path.c_str());
}

void make_folder(const fs::path& folder) {
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw VendorError("",
                      fmt::format("{}: the folder cannot be created: {}", folder.string(), error.message()));
}

void write_atomically(const std::string& path, std::string_view contents) {
  write_atomically(path, std::span(&contents, 1));
}

void write_atomically(const std::string& path, std::span<const std::string_view> parts) {
  const fs::path place(path);
  remove_abandoned(place.parent_path(), place.filename().string() + std::string(kWriting));
  const std::string beside = name_while_writing(path);
  write_synchronised(beside, parts);
  if (::rename(beside.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    ::unlink(beside.c_str());
    fail(path, "replaced", reason);
  }
  synchronise_folder(place.parent_path());
}

LineFile::LineFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: a FIFO without a reader is an error instead of blocking.
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
  if (file_ < 0) fail(path, "created", errno);
}

LineFile::~LineFile() { ::close(file_); }

void LineFile::add(std::string_view line) {
  kept_ += line;
  kept_ += '\n';
  std::string_view left = kept_;
  const int reason = write_from(file_, left) ? 0 : errno;
  kept_.erase(0, kept_.size() - left.size());
  write_error_.reset();
  if (reason != 0) write_error_ = write_error_text(path_, "written", reason);
}

SmallFile::SmallFile(const std::string& path) : path_(path) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) fail(path, "created", errno);
}

SmallFile::~SmallFile() { ::close(file_); }

void SmallFile::put(std::string_view text) {
  write_error_.reset();
  const ssize_t written = ::pwrite(file_, text.data(), text.size(), 0);
  if (written != static_cast<ssize_t>(text.size()))
    write_error_ = write_error_text(path_, "written", written < 0 ? errno : ENOSPC);
}

}  // namespace tandem::files
