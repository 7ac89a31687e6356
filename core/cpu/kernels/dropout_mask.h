// Dropout of runs of elements: element i is kept if word i % 4 of Philox block i / 4 is at least p·2^32, and
// then scaled by 1/(1-p).
#pragma once

#include <cmath>
#include <limits>

#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/philox_lanes.h"

namespace tandem::cpu::TANDEM_LEVEL {

class DropoutMask {
 public:
  DropoutMask(const RandomKey& key, double p) : scale_(1.0 / (1.0 - p)) {
    const auto threshold = static_cast<std::uint64_t>(std::llround(p * 0x1p32));
    drops_ = threshold > 0;
    if (!drops_) return;
    drops_all_ = threshold > std::numeric_limits<std::uint32_t>::max();
    least_ = static_cast<std::uint32_t>(threshold);
    key_ = kernels::resolved(key);
  }

  bool drops() const { return drops_; }

  // y ← dropout of x, for the elements [first, first + count) of a tensor. y may be x. Returns y.
  template <class T>
  T* apply(const T* x, Index first, Index count, T* y) const {
    if (drops_all_) return std::fill_n(y, count, T(0)), y;
    const T scale = static_cast<T>(scale_);
    std::uint32_t memory[kBlock + kWords * (kPhiloxLanes + 1)];
    for (Index start = 0; start < count; start += kBlock) {
      const Index element = first + start, n = std::min(kBlock, count - start), skipped = element % kWords;
      for (Index i = 0; i < skipped + n; i += kWords * kPhiloxLanes)
        philox_lanes(key_, static_cast<std::uint32_t>((element - skipped + i) / kWords), memory + i);
      const std::uint32_t* const words = memory + skipped;
      for (Index i = 0; i < n; ++i) {
        const T scaled = x[start + i] * scale;  // unconditional, because a branch would be mispredicted
        y[start + i] = words[i] >= least_ ? scaled : T(0);
      }
    }
    return y;
  }

 private:
  static constexpr Index kWords = 4;
  RandomKey key_;
  double scale_;
  std::uint32_t least_ = 0;
  bool drops_ = false, drops_all_ = false;
};

}  // namespace tandem::cpu::TANDEM_LEVEL
