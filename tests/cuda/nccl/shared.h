// Shared state of the ranks of one communicator of the stand-in: a file in /dev/shm that all of them map.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace nccl_stand_in {

inline constexpr int kMostRanks = 16;
inline constexpr std::size_t kAreaBytes = std::size_t{256} << 10;

// What a rank takes part in: of a piece of a collective that all ranks do.
struct Piece {
  std::uint64_t collective = 0, piece = 0;
  std::uint64_t count = 0;  // elements of the collective
  std::int32_t kind = 0, type = 0, reduction = 0, root = 0;

  friend bool operator==(const Piece&, const Piece&) = default;
};

struct Place {
  std::atomic<std::uint64_t> posted,
      taken;    // pieces whose values lie in the area; that were read by this rank
  Piece piece;  // the last one
};

struct Shared {
  std::atomic<int> attached, error;  // ranks; an ncclResult_t
  char error_text[256];
  Place places[kMostRanks];

  void fail(int code, const std::string& text) {
    int none = 0;
    if (!error.compare_exchange_strong(none, -1)) return;
    std::strncpy(error_text, text.c_str(), sizeof(error_text) - 1);
    error = code;
  }
};

// The file's name follows from `name`. Throws std::runtime_error.
class Mapping {
 public:
  Mapping(const std::string& name, int ranks);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Shared& shared() { return *static_cast<Shared*>(memory_); }
  std::byte* area(int rank);
  // Nobody else can map it from now on.
  void unlink();

 private:
  std::string path_;
  std::size_t bytes_;
  void* memory_;
};

}  // namespace nccl_stand_in
