// SharedMemory: memory shared by processes of a host, without a name in the file system, so that nothing is
// left behind however they end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::parallel {

class SharedMemory {
 public:
  // Location for other processes, valid while `file` is open in its process. Sent as bytes.
  struct Place {
    std::int64_t process = 0;
    std::int64_t file = -1;
    std::uint64_t bytes = 0;
    std::uint64_t id = 0;  // random, and written to the first bytes, to detect another file
  };

  // New memory, zero after the first kIdBytes and fully reserved. Throws VendorError when the system refuses.
  explicit SharedMemory(std::size_t bytes);
  // Memory of another process on this host. Throws VendorError when it is inaccessible.
  explicit SharedMemory(const Place& place);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  static constexpr std::size_t kIdBytes = sizeof(std::uint64_t);

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return place_.bytes; }
  const Place& place() const { return place_; }
  // Call when every process has mapped it; others then cannot.
  void close_file();

 private:
  void map();

  Place place_;
  int file_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace tandem::parallel
