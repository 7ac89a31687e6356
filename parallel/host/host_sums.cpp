#include "parallel/host/host_sums.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "core/backend.h"
#include "core/error.h"

namespace tandem::parallel {

// A rank's own cache line.
struct alignas(64) HostSums::Counters {
  std::atomic<std::uint64_t> in, added, out;

  using Counter = std::atomic<std::uint64_t> Counters::*;
  static std::uint64_t least(const Counters* of, int size, Counter counter) {
    std::uint64_t least = (of[0].*counter).load(std::memory_order_acquire);
    for (int rank = 1; rank < size; ++rank)
      least = std::min(least, (of[rank].*counter).load(std::memory_order_acquire));
    return least;
  }
};

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kGranule = std::size_t{2} << 20;  // of the allocator's segments
constexpr std::size_t kSliceUnit = 64;                  // elements: no two ranks write to one cache line

std::size_t rounded_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

// The id of SharedMemory, then the counters on separate cache lines.
std::size_t header_bytes(int size) { return rounded_up(64 * (static_cast<std::size_t>(size) + 1), kPage); }
std::size_t buffer_bytes(int size) {
  return (static_cast<std::size_t>(size) + 1) * HostSums::kDepth * HostSums::kChunkBytes;
}

// Provides the buffers of a shared memory, which it owns, once, as memory for tensors.
class SharedSource final : public MemorySource {
 public:
  SharedSource(std::unique_ptr<SharedMemory> memory, std::size_t header)
      : memory_(std::move(memory)), header_(header) {}

  void* acquire(std::size_t bytes) override {
    if (header_ + bytes > memory_->bytes()) return nullptr;
    return memory_->data() + header_;
  }
  void release(void*, std::size_t) override {}
  std::string_view name() const override { return "memory of the ranks"; }

 private:
  std::unique_ptr<SharedMemory> memory_;
  std::size_t header_;
};

// First element of a rank's slice.
std::size_t slice_begin(std::size_t count, int rank, int size) {
  const std::size_t exact = count * static_cast<std::size_t>(rank) / static_cast<std::size_t>(size);
  return rank == size ? count : exact / kSliceUnit * kSliceUnit;
}

}  // namespace

std::size_t HostSums::bytes_for(int size) {
  // The allocator may add guards, and takes whole granules.
  return header_bytes(size) + rounded_up(buffer_bytes(size) + kGranule / 2, kGranule);
}

bool HostSums::adds(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

HostSums::HostSums(int rank, int size, std::unique_ptr<SharedMemory> memory)
    : rank_(rank), size_(size), counters_(reinterpret_cast<Counters*>(memory->data() + 64)) {
  ensure(memory->bytes() == bytes_for(size), "host sums", "{} bytes for {} ranks", memory->bytes(), size);
  static_assert(sizeof(Counters) == 64 && SharedMemory::kIdBytes <= 64);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // required between processes
  allocator_ = std::make_unique<CachingAllocator>(
      std::make_unique<SharedSource>(std::move(memory), header_bytes(size)), true);
  storage_ = make_ref<Storage>(*allocator_, buffer_bytes(size), Device{}, MemoryKind::workspace);
  // A slice of 16-bit elements, or a small chunk of them.
  const std::size_t most =
      std::max(kChunkBytes / 2 / static_cast<std::size_t>(size) + 2 * kSliceUnit, kSmallBytes / 2);
  sums_ = Tensor::empty({static_cast<Index>(most)}, {DType::f32, {}, MemoryKind::workspace});
  small_ = Tensor::empty({static_cast<Index>(kSmallBytes)}, {DType::u8, {}, MemoryKind::workspace});
}

HostSums::~HostSums() = default;

std::uint64_t HostSums::begin(Elements data) {
  const std::uint64_t first = begun_;
  begun_ += (data.bytes() + kChunkBytes - 1) / kChunkBytes;
  messages_.push_back({data, first, begun_});
  const std::uint64_t ticket = begun_;
  advance();
  return ticket;
}

void HostSums::advance() {
  for (bool moves = true; moves;) {
    moves = copy_in();
    moves |= add();
    moves |= copy_out();
  }
  while (!messages_.empty() && messages_.front().last <= out_) messages_.pop_front();
}

HostSums::Piece HostSums::piece(std::uint64_t chunk) const {
  auto message = messages_.begin();
  while (chunk >= message->last) ++message;
  const std::size_t width = size_of(message->data.dtype), most = kChunkBytes / width;
  const std::size_t first = static_cast<std::size_t>(chunk - message->first) * most;
  const std::size_t count = std::min(most, message->data.count - first);
  return {static_cast<std::byte*>(message->data.data) + first * width, count, message->data.dtype,
          count * width <= kSmallBytes};
}

// Copies into the place of the chunk kDepth before it, which all ranks must have added.
bool HostSums::copy_in() {
  if (in_ == begun_ || Counters::least(counters_, size_, &Counters::added) + kDepth <= in_) return false;
  const Piece of = piece(in_);
  std::memcpy(values(rank_, in_, of.dtype, 0, of.count).raw(), of.data, of.bytes());
  counters_[rank_].in.store(++in_, std::memory_order_release);
  return true;
}

// Adds what all ranks have copied in, into the result of the chunk kDepth before it, which all ranks must
// have copied out.
bool HostSums::add() {
  if (added_ == in_ || Counters::least(counters_, size_, &Counters::in) <= added_) return false;
  const Piece of = piece(added_);
  if (of.is_small) {
    add_ranks(added_, of, 0, of.count);
  } else {
    if (Counters::least(counters_, size_, &Counters::out) + kDepth <= added_) return false;
    add_ranks(added_, of, slice_begin(of.count, rank_, size_), slice_begin(of.count, rank_ + 1, size_));
  }
  counters_[rank_].added.store(++added_, std::memory_order_release);
  return true;
}

bool HostSums::copy_out() {
  if (out_ == added_) return false;
  const Piece of = piece(out_);
  if (!of.is_small) {
    if (Counters::least(counters_, size_, &Counters::added) <= out_) return false;
    std::memcpy(of.data, values(size_, out_, of.dtype, 0, of.count).raw(), of.bytes());
  }
  counters_[rank_].out.store(++out_, std::memory_order_release);
  return true;
}

void HostSums::add_ranks(std::uint64_t chunk, const Piece& of, std::size_t begin, std::size_t end) {
  if (begin == end) return;
  Backend& backend = backend_for(Device{});
  const std::size_t count = end - begin;
  const Shape shape{static_cast<Index>(count)};
  const Tensor target = of.is_small ? Tensor::over(small_.storage(), small_.offset(), shape, of.dtype)
                                    : values(size_, chunk, of.dtype, begin, count);
  const Tensor sum = of.dtype == DType::f32 ? target : sums_.rows(0, static_cast<Index>(count));
  for (int rank = 0; rank < size_; ++rank)
    backend.cast(values(rank, chunk, of.dtype, begin, count), sum, rank > 0);
  if (of.dtype != DType::f32) backend.cast(sum, target);
  if (of.is_small) std::memcpy(of.data, target.raw(), of.bytes());
}

Tensor HostSums::values(int rank, std::uint64_t chunk, DType dtype, std::size_t begin,
                        std::size_t count) const {
  const std::size_t buffer =
      static_cast<std::size_t>(rank) * kDepth + static_cast<std::size_t>(chunk % kDepth);
  return Tensor::over(storage_, buffer * kChunkBytes + begin * size_of(dtype), {static_cast<Index>(count)},
                      dtype);
}

}  // namespace tandem::parallel
