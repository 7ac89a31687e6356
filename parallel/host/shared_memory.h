// Memory that processes of a host share. It has no name in any folder, so that nothing is left of it, however
// they end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::parallel {

class SharedMemory {
 public:
  // Where it is found by other processes, while `file` is open in that one. Sent as it is.
  struct Place {
    std::int64_t process = 0;
    std::int64_t file = -1;
    std::uint64_t bytes = 0;
    std::uint64_t id = 0;  // drawn, and written to its first bytes: another file is noticed
  };

  // New, zero after the first kIdBytes, and taken from the system as a whole. Throws VendorError when the
  // system gives none.
  explicit SharedMemory(std::size_t bytes);
  // That of a process of this host. Throws VendorError when this process cannot have it.
  explicit SharedMemory(const Place& place);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  static constexpr std::size_t kIdBytes = sizeof(std::uint64_t);

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return place_.bytes; }
  const Place& place() const { return place_; }
  // Once everybody has it, nobody else can.
  void close_file();

 private:
  void map();

  Place place_;
  int file_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace tandem::parallel
