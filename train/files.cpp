#include "train/files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error.h"

namespace tandem::train {

namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw VendorError("", fmt::format("{}: cannot be {}: {}", path, what, std::strerror(errno)));
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

void write_atomically(const std::string& path, std::string_view contents) {
  write_atomically(path, std::span(&contents, 1));
}

void write_atomically(const std::string& path, std::span<const std::string_view> parts) {
  const std::string beside = fmt::format("{}.tmp-{}", path, ::getpid());
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) fail(beside, "created");
  bool whole = true;
  for (std::string_view part : parts) whole = whole && write_all(file, part);
  whole = whole && ::fsync(file) == 0;
  const int reason = errno;
  ::close(file);
  if (!whole || ::rename(beside.c_str(), path.c_str()) != 0) {
    if (!whole) errno = reason;
    const int kept = errno;
    ::unlink(beside.c_str());
    errno = kept;
    fail(path, "written");
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int directory = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  ::fsync(directory);
  ::close(directory);
}

LineFile::LineFile(const std::string& path) : path_(path) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) fail(path, "created");
}

LineFile::~LineFile() { ::close(file_); }

void LineFile::add(std::string line) {
  line += '\n';
  if (!write_all(file_, line)) fail(path_, "written");
}

}  // namespace tandem::train
