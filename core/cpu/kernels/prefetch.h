// Requests for memory that will be read next, while the processor multiplies: copies into panels, and loads
// of weights, would otherwise wait for it with the arithmetic idle.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/shape.h"

namespace tandem::cpu::TANDEM_LEVEL {

// Memory that loops will read.
struct Bytes {
  const void* from = nullptr;
  std::size_t count = 0;
};

template <class S>
Bytes bytes_of(const S* from, Index count) {
  return {from, static_cast<std::size_t>(std::max<Index>(count, 0)) * sizeof(S)};
}

// A range of memory in even shares.
class Shares {
 public:
  Shares() = default;
  Shares(Bytes all, Index shares) : left_(all) {
    const auto count = static_cast<std::size_t>(std::max<Index>(shares, 1));
    share_ = (all.count + count - 1) / count;
  }

  Bytes next() {
    const Bytes share{left_.from, std::min(share_, left_.count)};
    left_ = {static_cast<const char*>(left_.from) + share.count, left_.count - share.count};
    return share;
  }

 private:
  Bytes left_;
  std::size_t share_ = 0;
};

// Brings two ranges towards the second cache, one after the other, a step at every turn of the loops that
// multiply: requests in a burst would keep the loops' own waiting. At most a line a turn; what is left over
// in the end is not brought.
class Prefetch {
 public:
  Prefetch() = default;
  Prefetch(Bytes first, Bytes second, Index turns)
      : now_(address(first)), end_(now_ + first.count), then_(second) {
    const std::size_t bytes = first.count + second.count;
    step_ = std::min(bytes / static_cast<std::size_t>(std::max<Index>(turns, 1)) + 1, kLine);
    settle();
  }

  // What the next turn asks for.
  const void* next() const { return reinterpret_cast<const void*>(now_); }

  void turn() {
    __builtin_prefetch(next(), 0, 2);
    now_ += step_;
  }

  // Between loops: goes on with the second range where the first is through, and rests behind it.
  void settle() {
    if (now_ < end_) return;
    if (then_.count == 0) {
      *this = {};
      return;
    }
    now_ = address(then_), end_ = now_ + then_.count, then_ = {};
  }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr char kRest[kLine] = {};  // a request for what is not mapped would keep looking for it
  static std::uintptr_t address(Bytes bytes) { return reinterpret_cast<std::uintptr_t>(bytes.from); }

  std::uintptr_t now_ = reinterpret_cast<std::uintptr_t>(&kRest), end_ = UINTPTR_MAX;
  std::size_t step_ = 0;
  Bytes then_;
};

}  // namespace tandem::cpu::TANDEM_LEVEL
