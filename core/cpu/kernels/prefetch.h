// Prefetching of the next inputs and weights during multiplication, so that copies into panels do not stall.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/shape.h"

namespace tandem::cpu::TANDEM_LEVEL {

// A range of memory to prefetch.
struct Bytes {
  const void* from = nullptr;
  std::size_t count = 0;
};

template <class S>
Bytes bytes_of(const S* from, Index count) {
  return {from, static_cast<std::size_t>(std::max<Index>(count, 0)) * sizeof(S)};
}

// Prefetches ranges into L2 in equal bursts, one per turn of a loop whose turns take longer than its
// requests.
class Bursts {
 public:
  static constexpr Index kLine = 64;

  Bursts() = default;
  Bursts(Bytes first, Bytes second, Index turns)
      : now_(first),
        then_(second),
        lines_((lines_of(first) + lines_of(second) + turns - 1) / std::max<Index>(turns, 1)) {}

  void turn() {
    const Index lines = std::min(lines_, lines_of(now_));
    const auto* p = static_cast<const char*>(now_.from);
    for (Index i = 0; i < lines; ++i) __builtin_prefetch(p + i * kLine, 0, 2);
    now_ = {p + lines * kLine, now_.count - static_cast<std::size_t>(lines * kLine)};
    if (lines < lines_) std::swap(now_, then_), then_ = {};
  }

 private:
  static Index lines_of(Bytes bytes) { return static_cast<Index>(bytes.count) / kLine; }

  Bytes now_, then_;
  Index lines_ = 0;
};

// A range of memory divided into equal shares.
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

// Prefetches two ranges into L2, one after the other, at most one cache line per iteration of the multiplying
// loop: a burst of requests would delay the loop's own loads. Remaining lines are skipped.
class Prefetch {
 public:
  Prefetch() = default;
  Prefetch(Bytes first, Bytes second, Index turns)
      : now_(address(first)), end_(now_ + first.count), then_(second) {
    const std::size_t bytes = first.count + second.count;
    step_ = std::min(bytes / static_cast<std::size_t>(std::max<Index>(turns, 1)) + 1, kLine);
    settle();
  }

  // Address of the next request.
  const void* next() const { return reinterpret_cast<const void*>(now_); }

  void turn() {
    __builtin_prefetch(next(), 0, 2);
    now_ += step_;
  }

  // Called between loops: switches to the second range after the first, and stops after the second.
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
  static constexpr char kRest[kLine] =
      {};  // target when idle: prefetching an unmapped address causes page walks
  static std::uintptr_t address(Bytes bytes) { return reinterpret_cast<std::uintptr_t>(bytes.from); }

  std::uintptr_t now_ = reinterpret_cast<std::uintptr_t>(&kRest), end_ = UINTPTR_MAX;
  std::size_t step_ = 0;
  Bytes then_;
};

}  // namespace tandem::cpu::TANDEM_LEVEL
