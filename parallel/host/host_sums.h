// HostSums: sums over the ranks of one host in shared memory.
//
// A message is cut into chunks, numbered over all messages. Each rank copies its values of a chunk in, adds
// one slice of the chunk over all ranks, and copies the sum out; three counters, which only it writes, show
// its progress in each. Buffers hold kDepth chunks, the maximum distance between ranks. Every rank adds small
// chunks itself.
//
// Elements are added in rank order in f32; sums of 16-bit types are rounded once. So the bits depend neither
// on timing nor on chunking.
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
  // `memory` is shared by all `size` ranks, has bytes_for(size) bytes, and is initially zero.
  HostSums(int rank, int size, std::unique_ptr<SharedMemory> memory);
  ~HostSums();
  HostSums(const HostSums&) = delete;
  HostSums& operator=(const HostSums&) = delete;

  static std::size_t bytes_for(int size);
  // f32, f16 and bf16.
  static bool adds(DType dtype);

  // All ranks begin the same messages in the same order. `data`, not empty, becomes the sum, and is in use
  // until ended(). Returns the message's ticket.
  std::uint64_t begin(Elements data);
  // Makes as much progress as the other ranks permit, without waiting.
  void advance();
  // Earlier messages have ended, too. Ranks that have not copied out the result still can.
  bool ended(std::uint64_t ticket) const { return out_ >= ticket; }

  static constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
  static constexpr std::uint64_t kDepth = 4;
  // A chunk that every rank adds itself.
  static constexpr std::size_t kSmallBytes = std::size_t{4} << 10;

 private:
  struct Counters;
  struct Message {
    Elements data;
    std::uint64_t first, last;  // its chunks: first … last - 1
  };
  // The part of a message in a chunk.
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
  // Sums elements begin … end - 1 of a chunk into the result, or, for a small chunk, into the own data.
  void add_ranks(std::uint64_t chunk, const Piece& piece, std::size_t begin, std::size_t end);
  // Values of a rank, or the result (rank size_), from element `begin`.
  Tensor values(int rank, std::uint64_t chunk, DType dtype, std::size_t begin, std::size_t count) const;

  const int rank_, size_;
  Counters* counters_;  // of each rank
  std::unique_ptr<CachingAllocator> allocator_;
  Ref<Storage> storage_;  // the buffers: kDepth chunks of each rank, and of the result
  Tensor sums_;           // f32, before rounding
  Tensor small_;          // sum of a small chunk, any type
  std::deque<Message> messages_;
  std::uint64_t begun_ = 0, in_ = 0, added_ = 0, out_ = 0;  // chunks
};

}  // namespace tandem::parallel
