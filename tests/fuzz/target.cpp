#include "tests/fuzz/target.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "core/memory_limit.h"

namespace tandem::fuzz {

namespace {

// What an input may ask for; most shipped models take less.
constexpr std::size_t kMemory = std::size_t{128} << 20;

class Folder {
 public:
  Folder() {
    const std::filesystem::path memory = "/dev/shm";
    std::string pattern =
        (std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path()) /
        "tandem-fuzz-XXXXXX";
    if (!::mkdtemp(pattern.data())) throw VendorError(pattern, "cannot be made");
    path = pattern;
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

}  // namespace

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

std::string file_of(Bytes input) {
  static const int descriptor = ::memfd_create("tandem-fuzz", MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, 0) != 0 ||
      ::pwrite(descriptor, input.data(), input.size(), 0) != static_cast<ssize_t>(input.size()))
    throw VendorError("memfd_create", "gave no file in memory");
  return "/proc/self/fd/" + std::to_string(descriptor);
}

const std::string& folder() {
  static const Folder folder;
  return folder.path;
}

void expect(bool holds, const char* what) {
  if (!holds) throw InternalError("fuzz", what);
}

bool run_guarded(void (*run)(Bytes), Bytes input, std::string& why) {
  [[maybe_unused]] static const bool limited = (limit_host_memory(kMemory), true);
  try {
    run(input);
    return true;
  } catch (const UserError& error) {
    why = error.what();
  } catch (const VendorError& error) {
    why = error.what();
  }
  return false;
}

}  // namespace tandem::fuzz
