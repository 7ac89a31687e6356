#include "files/input.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace tandem::files {

namespace fs = std::filesystem;

namespace {

std::string reason_text(int reason) {
  return reason == ELOOP ? "is a loop of symbolic links"
                         : fmt::format("cannot be opened: {}", std::strerror(reason));
}

[[noreturn]] void fail(const fs::path& path, int reason) {
  throw UserError(path.string(), reason_text(reason));
}

const char* name_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a file";
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

void require_regular(const fs::path& path, mode_t mode) {
  require(S_ISREG(mode), path.string(), "is {}, not a regular file", name_of(mode));
}

// Files that the kernel makes up when they are read are regular ones to `stat`, and may block for ever.
bool of_the_kernel(int descriptor) {
  struct statfs system {};
  if (::fstatfs(descriptor, &system) != 0) return false;
  constexpr decltype(system.f_type) kinds[] = {PROC_SUPER_MAGIC,    SYSFS_MAGIC,      DEBUGFS_MAGIC,
                                               TRACEFS_MAGIC,       SECURITYFS_MAGIC, CGROUP_SUPER_MAGIC,
                                               CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC};
  return std::ranges::count(kinds, system.f_type) > 0;
}

}  // namespace

Kind kind_of(const fs::path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return Kind::absent;
    fail(path, errno);
  }
  return S_ISREG(found.st_mode) ? Kind::file : S_ISDIR(found.st_mode) ? Kind::folder : Kind::special;
}

std::string no_folder(const fs::path& path) {
  struct stat found {};
  if (kind_of(path) == Kind::absent || ::stat(path.c_str(), &found) != 0) return "there is no such folder";
  return fmt::format("is {}, not a folder", name_of(found.st_mode));
}

InputFile::InputFile(const fs::path& path) : path_(path.string()) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    const int reason = errno;
    if (reason != ENOENT && reason != ENOTDIR) fail(path, reason);
    struct stat link {};
    require(::lstat(path.c_str(), &link) != 0, path_, "is a symbolic link to nothing");
    throw UserError(path_, "there is no such file");
  }
  // Not even opened: that alone may do something to a device.
  require_regular(path, found.st_mode);
  // It may have become another one meanwhile: opening a FIFO does not wait.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) fail(path, errno);
  try {
    if (::fstat(descriptor_, &found) != 0) fail(path, errno);
    require_regular(path, found.st_mode);
    require(!of_the_kernel(descriptor_), path_, "is made up by the kernel as it is read, not a stored file");
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  size_ = static_cast<std::uint64_t>(found.st_size);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int InputFile::release() { return std::exchange(descriptor_, -1); }

void InputFile::read(std::uint64_t offset, void* to, std::uint64_t bytes) const {
  auto* target = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, target, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw VendorError(path_, fmt::format("cannot be read: {}", std::strerror(errno)));
    require(got > 0, path_, "ends at byte {}, {} more were expected: it was changed while being read", offset,
            bytes);
    target += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
}

std::string read_text(const fs::path& path, std::uint64_t limit) {
  const InputFile file(path);
  require(file.size() <= limit, file.path(), "has {} bytes, at most {} are read", file.size(), limit);
  std::string text(file.size(), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

std::optional<std::string> read_text_if_there(const fs::path& path, std::uint64_t limit) {
  if (kind_of(path) == Kind::absent) return {};
  return read_text(path, limit);
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) entries.push_back(*at);
  if (error) {
    struct stat found {};
    const bool other = ::stat(folder.c_str(), &found) == 0 && !S_ISDIR(found.st_mode);
    require(!other, folder.string(), "is {}, not a folder", name_of(found.st_mode));
    fail(folder, error.value());
  }
  std::ranges::sort(entries);
  return entries;
}

}  // namespace tandem::files
