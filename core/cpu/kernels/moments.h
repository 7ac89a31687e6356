// Means and variances of channels from sums that keep their digits whatever the mean (shifted data and
// updates in pairs: Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance", 1983).
//
// Values are measured against a shift k close to the mean, and summed in the compute type over a chunk of n:
//   s = Σ (x - k),   q = Σ (x - k)².
// A chunk is folded into sums S and Q in f64 about an origin o that stays; with d = k - o
//   S += s + n·d,    Q += q + d·(2·s + n·d),    and the next chunk's k is this one's mean, k + s/n.
// In the end, of N values:
//   mean = o + S/N,  Σ (x - mean)² = Q - S²/N.
// A chunk whose mean jumps away from the one before adds as much true variance as it loses digits.
#pragma once

#include "core/cpu/kernels/simd.h"
#include "core/tensor.h"

namespace tandem::cpu::TANDEM_LEVEL {

template <class T>
inline void fold_chunk(double n, T chunk_sum, T chunk_squares, T origin, T& shift, double& sum,
                       double& squares) {
  const double s = chunk_sum, q = chunk_squares;
  const double d = static_cast<double>(shift) - static_cast<double>(origin);
  sum += s + n * d;
  squares += q + d * (2.0 * s + n * d);
  shift = static_cast<T>(shift + s * (1.0 / n));
}

// The moments of what a team of threads writes, taken while it is in their caches. Channels are a multiple of
// 16.
class ChannelMoments {
 public:
  ChannelMoments(Index channels, int threads);

  // A chunk for thread t: `rows` rows of `count` pixels, `step` elements apart, each row `row_step` behind
  // the one before; `width` channels from `first` on, of which `at` is the first.
  template <class S>
  void add(int t, const S* at, Index rows, Index row_step, Index count, Index step, Index first, Index width);

  // Σ x and Σ x² of every channel, f64 [2,C]. The variance that follows from them is one part in 10⁶ wrong
  // where the mean is 10⁵ deviations.
  Tensor sums() const;

 private:
  struct Lanes {
    double sum[kLanes], squares[kLanes];
    float shift[kLanes], origin[kLanes];
    double count;  // of values in each lane; 0: shift and origin are not set
  };
  Lanes& lanes(int t, Index channel) {
    return reinterpret_cast<Lanes*>(memory_.raw())[t * blocks_ + channel / kLanes];
  }

  Index blocks_;
  int threads_;
  Tensor memory_;  // Lanes [threads][blocks]
};

template <class S>
void ChannelMoments::add(int t, const S* at, Index rows, Index row_step, Index count, Index step, Index first,
                         Index width) {
  for (Index c = first; c < first + width; c += kLanes, at += kLanes) {
    Lanes& l = lanes(t, c);
    // The first value is as close to the mean as values are.
    if (l.count == 0.0) {
      store(l.shift, load(at));
      store(l.origin, load(at));
    }
    const Vec k = load(l.shift);
    // Four of each: a sum waits for the one before.
    Vec sum[4] = {zero(), zero(), zero(), zero()}, squares[4] = {zero(), zero(), zero(), zero()};
    const auto take = [&](const S* x, int i) {
      const Vec d = load(x) - k;
      sum[i] = sum[i] + d;
      squares[i] = fma(d, d, squares[i]);
    };
    for (Index row = 0; row < rows; ++row) {
      const S* x = at + row * row_step;
      Index left = count;
      for (; left >= 4; left -= 4, x += 4 * step)
        take(x, 0), take(x + step, 1), take(x + 2 * step, 2), take(x + 3 * step, 3);
      for (; left > 0; --left, x += step) take(x, 0);
    }
    float s[kLanes], q[kLanes];
    store(s, (sum[0] + sum[1]) + (sum[2] + sum[3]));
    store(q, (squares[0] + squares[1]) + (squares[2] + squares[3]));
    const auto n = static_cast<double>(rows * count);
    for (int i = 0; i < kLanes; ++i)
      fold_chunk(n, s[i], q[i], l.origin[i], l.shift[i], l.sum[i], l.squares[i]);
    l.count += n;
  }
}

}  // namespace tandem::cpu::TANDEM_LEVEL
