#include "core/cpu/kernels/moments.h"

#include <cstring>

#include "core/cpu/kernels/blocks.h"

namespace tandem::cpu::TANDEM_LEVEL {

ChannelMoments::ChannelMoments(Index channels, int threads)
    : blocks_(channels / kLanes),
      threads_(threads),
      memory_(workspace<std::uint8_t>({threads * blocks_ * static_cast<Index>(sizeof(Lanes))})) {
  std::memset(memory_.raw(), 0, memory_.bytes());
}

Tensor ChannelMoments::sums() const {
  const Index channels = blocks_ * kLanes;
  const Tensor result = Tensor::empty({2, channels}, {.dtype = DType::f64});
  auto* const sums = result.data<double>();
  const auto* const all = static_cast<const Lanes*>(static_cast<const void*>(memory_.raw()));
  for (Index c = 0; c < channels; ++c) {
    double sum = 0.0, squares = 0.0;
    for (int t = 0; t < threads_; ++t) {
      const Lanes& l = all[t * blocks_ + c / kLanes];
      if (l.count == 0.0) continue;
      const Index lane = c % kLanes;
      const double mean = l.origin[lane] + l.sum[lane] / l.count;
      sum += l.count * mean;
      squares += l.squares[lane] - l.sum[lane] * (l.sum[lane] / l.count) + l.count * mean * mean;
    }
    sums[c] = sum;
    sums[channels + c] = squares;
  }
  return result;
}

}  // namespace tandem::cpu::TANDEM_LEVEL
