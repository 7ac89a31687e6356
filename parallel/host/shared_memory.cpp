#include "parallel/host/shared_memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>

#include "core/error.h"

namespace tandem::parallel {

namespace {

[[noreturn]] void fail_shared(const std::string& what, int error) {
  throw VendorError("shared memory", what + ": " + std::strerror(error));
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes) {
  std::random_device random;
  place_ = {getpid(), -1, bytes, (std::uint64_t{random()} << 32 | random()) | 1};
  file_ = memfd_create("tandem-ranks", MFD_CLOEXEC);
  if (file_ < 0) fail_shared("the system cannot create a file in memory", errno);
  place_.file = file_;
  // Reserves the memory now, so that a shortage is an error instead of a signal later.
  const int error = posix_fallocate(file_, 0, static_cast<off_t>(bytes));
  if (error != 0) {
    close_file();
    fail_shared(fmt::format("the system refuses {} bytes", bytes), error);
  }
  map();
  std::memcpy(data_, &place_.id, sizeof place_.id);
}

SharedMemory::SharedMemory(const Place& place) : place_(place) {
  const std::string path = fmt::format("/proc/{}/fd/{}", place.process, place.file);
  file_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file_ < 0) fail_shared(path, errno);
  struct stat found {};
  if (fstat(file_, &found) != 0 || static_cast<std::uint64_t>(found.st_size) != place.bytes) {
    close_file();
    fail_shared(path + " is another file", EINVAL);
  }
  map();
  if (std::memcmp(data_, &place.id, sizeof place.id) != 0) {
    munmap(data_, bytes());
    fail_shared(path + " is another file", EINVAL);
  }
}

SharedMemory::~SharedMemory() {
  munmap(data_, bytes());
  close_file();
}

// The file of another process's memory is not needed once mapped.
void SharedMemory::map() {
  void* const memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  const int error = errno;
  if (place_.process != getpid() || place_.file != file_ || memory == MAP_FAILED) close_file();
  if (memory == MAP_FAILED) fail_shared(fmt::format("{} bytes cannot be mapped", bytes()), error);
  data_ = static_cast<std::byte*>(memory);
}

void SharedMemory::close_file() {
  if (file_ >= 0) close(file_);
  file_ = -1;
}

}  // namespace tandem::parallel
