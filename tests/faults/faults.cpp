// A preloaded library that makes the n-th file operation of a program fail, or ends the program there. It
// counts these calls on paths that contain $TANDEM_FAULT_PATH:
//   open (for writing), write, fsync, close (of a file open for writing), link, rename, mkdir, unlink, rmdir
//
//   TANDEM_FAULT=count        only counts
//   TANDEM_FAULT=exit:N       ends the process before its N-th call; a write has then written half
//   TANDEM_FAULT=EIO:N        the N-th call fails with this error
//   TANDEM_FAULT=ENOSPC:N     likewise, and all later writes
//   TANDEM_FAULT_LOG=FILE     logs a line per call: "12 rename /run/checkpoints/step-7.tmp-123"
//   TANDEM_FAULT_WITHOUT=link      the file system has no hard links; =exchange: nor can it exchange folders
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

enum class Kind { count, exit, error };

struct Plan {
  Kind kind = Kind::count;
  int error = 0;
  long at = 0;
  std::string path, log;
  bool active = false;

  Plan() {
    const char* fault = std::getenv("TANDEM_FAULT");
    const char* where = std::getenv("TANDEM_FAULT_PATH");
    if (!fault || !where) return;
    active = true;
    path = where;
    if (const char* file = std::getenv("TANDEM_FAULT_LOG")) log = file;
    const char* number = std::strchr(fault, ':');
    at = number ? std::atol(number + 1) : 0;
    if (std::strncmp(fault, "exit", 4) == 0) kind = Kind::exit;
    if (std::strncmp(fault, "ENOSPC", 6) == 0) kind = Kind::error, error = ENOSPC;
    if (std::strncmp(fault, "EIO", 3) == 0) kind = Kind::error, error = EIO;
  }
};

const Plan& plan() {
  static const Plan* plan = new Plan;  // never destroyed: calls come after main, too
  return *plan;
}

std::atomic<long> calls{0};

void note(long number, const char* call, const char* path) {
  if (plan().log.empty()) return;
  static auto* const open_ = next<int(const char*, int, ...)>("open");
  static auto* const write_ = next<ssize_t(int, const void*, size_t)>("write");
  static const int file = open_(plan().log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  char line[PATH_MAX + 64];
  const int length = std::snprintf(line, sizeof line, "%ld %s %s\n", number, call, path);
  if (file >= 0 && length > 0) (void)!write_(file, line, static_cast<size_t>(length));
}

// Whether the file system cannot do this.
bool lacks(const char* what) {
  const char* missing = std::getenv("TANDEM_FAULT_WITHOUT");
  return missing && std::strcmp(missing, what) == 0;
}

// What is to become of a call.
enum class Fate { goes_on, fails, last };

Fate fate_of(const char* call, const char* path) {
  if (!plan().active || !std::strstr(path, plan().path.c_str())) return Fate::goes_on;
  const long number = ++calls;
  note(number, call, path);
  if (plan().kind == Kind::exit && number == plan().at) return Fate::last;
  const bool full = plan().error == ENOSPC && number > plan().at && std::strcmp(call, "write") == 0;
  if (plan().kind == Kind::error && (number == plan().at || full)) {
    errno = plan().error;
    return Fate::fails;
  }
  return Fate::goes_on;
}

[[noreturn]] void stop() { _exit(99); }

// "" where the descriptor has no path or is only read from.
std::string path_of(int file) {
  const int flags = fcntl(file, F_GETFL);
  if (flags < 0) return {};
  char path[PATH_MAX], link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

bool writes(int file) { return (fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY; }

template <class Call>
int guarded(const char* name, const char* path, Call call) {
  switch (fate_of(name, path)) {
    case Fate::fails:
      return -1;
    case Fate::last:
      stop();
    case Fate::goes_on:
      break;
  }
  return call();
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open");
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  if ((flags & O_ACCMODE) == O_RDONLY) return real(path, flags, mode);
  return guarded("open", path, [&] { return real(path, flags, mode); });
}

ssize_t write(int file, const void* bytes, size_t count) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  if (!plan().active) return real(file, bytes, count);
  switch (fate_of("write", path_of(file).c_str())) {
    case Fate::fails:
      return -1;
    case Fate::last:
      (void)!real(file, bytes, count / 2);
      stop();
    case Fate::goes_on:
      break;
  }
  return real(file, bytes, count);
}

ssize_t pwrite(int file, const void* bytes, size_t count, off_t at) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (!plan().active) return real(file, bytes, count, at);
  switch (fate_of("write", path_of(file).c_str())) {
    case Fate::fails:
      return -1;
    case Fate::last:
      (void)!real(file, bytes, count / 2, at);
      stop();
    case Fate::goes_on:
      break;
  }
  return real(file, bytes, count, at);
}

int fsync(int file) {
  static auto* const real = next<int(int)>("fsync");
  return guarded("fsync", path_of(file).c_str(), [&] { return real(file); });
}

int close(int file) {
  static auto* const real = next<int(int)>("close");
  if (!plan().active || !writes(file)) return real(file);
  const std::string path = path_of(file);
  const int result = guarded("close", path.c_str(), [] { return 0; });
  const int reason = errno;
  real(file);  // a descriptor is gone even when its close fails
  errno = reason;
  return result;
}

int link(const char* from, const char* to) {
  static auto* const real = next<int(const char*, const char*)>("link");
  return guarded("link", to, [&] {
    errno = EPERM;
    return lacks("link") ? -1 : real(from, to);
  });
}

int rename(const char* from, const char* to) {
  static auto* const real = next<int(const char*, const char*)>("rename");
  return guarded("rename", from, [&] { return real(from, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static auto* const real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return guarded("rename", from, [&] {
    errno = EINVAL;
    return lacks("exchange") ? -1 : real(from_folder, from, to_folder, to, flags);
  });
}

int mkdir(const char* path, mode_t mode) {
  static auto* const real = next<int(const char*, mode_t)>("mkdir");
  return guarded("mkdir", path, [&] { return real(path, mode); });
}

int unlink(const char* path) {
  static auto* const real = next<int(const char*)>("unlink");
  return guarded("unlink", path, [&] { return real(path); });
}

int rmdir(const char* path) {
  static auto* const real = next<int(const char*)>("rmdir");
  return guarded("rmdir", path, [&] { return real(path); });
}

// What std::filesystem::remove_all calls.
int unlinkat(int folder, const char* path, int flags) {
  static auto* const real = next<int(int, const char*, int)>("unlinkat");
  const std::string whole = (folder == AT_FDCWD ? std::string() : path_of(folder) + "/") + path;
  return guarded(flags & AT_REMOVEDIR ? "rmdir" : "unlink", whole.c_str(),
                 [&] { return real(folder, path, flags); });
}
}
