// Sums over the ranks of one host, through memory that they share.
//
// A message is cut into chunks, numbered through all messages. Each rank copies its values of a chunk in,
// adds one slice of the chunk over all ranks, and copies the sum out; how far it is with each of the three is
// told by three counters, which it alone writes. Buffers hold kDepth chunks, so that ranks may be so far
// apart. Chunks of few elements are added by every rank for itself.
//
// Element by element ranks are added in their order, in f32; sums of 16-bit types are rounded once. So the
// bits depend neither on who is late nor on how a message is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "core/tensor.h"
#include "parallel/elements.h"
#include "parallel/host/shared_memory.h"

namespace tandem::parallel {

class HostSums {
 public:
  // The memory is that of all `size` ranks, of bytes_for(size) bytes; it is zero for the first.
  HostSums(int rank, int size, std::unique_ptr<SharedMemory> memory);
  ~HostSums();
  HostSums(const HostSums&) = delete;
  HostSums& operator=(const HostSums&) = delete;

  static std::size_t bytes_for(int size);
  // f32, f16 and bf16.
  static bool adds(DType dtype);

  // All ranks begin the same messages in the same order. `data`, which is not empty, becomes the sum; it is
  // in use until ended(). Returns the message's ticket.
  std::uint64_t begin(Elements data);
  // As far as the other ranks let it; waits for nobody.
  void advance();
  // With it, all that were begun before have ended. What another rank has not copied out yet, it can.
  bool ended(std::uint64_t ticket) const { return out_ >= ticket; }

  static constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
  static constexpr std::uint64_t kDepth = 4;
  // A chunk that every rank adds for itself.
  static constexpr std::size_t kSmallBytes = std::size_t{4} << 10;

 private:
  struct Counters;
  struct Message {
    Elements data;
    std::uint64_t first, last;  // its chunks: first … last - 1
  };
  // What a chunk is of.
  struct Piece {
    std::byte* data;
    std::size_t count;
    DType dtype;
    bool is_small;
    std::size_t bytes() const { return count * size_of(dtype); }
  };

  Piece piece(std::uint64_t chunk) const;
  bool copy_in();
  bool add();
  bool copy_out();
  // Sums of elements begin … end - 1 of a chunk, to the result's place or, where it is small, to the own
  // data.
  void add_ranks(std::uint64_t chunk, const Piece& piece, std::size_t begin, std::size_t end);
  // Values of a rank, or the result (rank size_): elements from `begin` on.
  Tensor values(int rank, std::uint64_t chunk, DType dtype, std::size_t begin, std::size_t count) const;

  const int rank_, size_;
  Counters* counters_;  // of each rank
  std::unique_ptr<CachingAllocator> allocator_;
  Ref<Storage> storage_;  // the buffers: kDepth chunks of each rank, and of the result
  Tensor sums_;           // f32, of what is rounded then
  Tensor small_;          // the sum of a small chunk, of any type
  std::deque<Message> messages_;
  std::uint64_t begun_ = 0, in_ = 0, added_ = 0, out_ = 0;  // chunks
};

}  // namespace tandem::parallel
