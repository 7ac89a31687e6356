#include "tests/cuda/nccl/shared.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

namespace nccl_stand_in {

namespace {
constexpr std::size_t kHead = (sizeof(Shared) + 4095) / 4096 * 4096;
}

Mapping::Mapping(const std::string& name, int ranks)
    : path_("/dev/shm/" + name), bytes_(kHead + kAreaBytes * static_cast<std::size_t>(ranks)) {
  const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0)
    throw std::runtime_error("no shared memory " + path_);
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory_ == MAP_FAILED) throw std::runtime_error("shared memory cannot be mapped: " + path_);
}

Mapping::~Mapping() { munmap(memory_, bytes_); }

std::byte* Mapping::area(int rank) {
  return static_cast<std::byte*>(memory_) + kHead + kAreaBytes * static_cast<std::size_t>(rank);
}

void Mapping::unlink() { ::unlink(path_.c_str()); }

}  // namespace nccl_stand_in
