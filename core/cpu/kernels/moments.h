// Means and variances per channel without cancellation for large means (shifted data and pairwise updates:
// Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance", 1983).
//
// Values are shifted by k, close to the mean, and summed in the compute type over a chunk of n:
//   s = Σ (x - k),   q = Σ (x - k)².
// Chunks are merged into f64 sums S and Q about a fixed origin o; with d = k - o
//   S += s + n·d,    Q += q + d·(2·s + n·d),    and the next chunk's k is this chunk's mean, k + s/n.
// The result for N values:
//   mean = o + S/N,  Σ (x - mean)² = Q - S²/N.
// A chunk whose mean jumps adds as much true variance as it loses in precision.
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

// Moments of a kernel's output, taken while it is in the threads' caches. Channels are a multiple of 16.
class ChannelMoments {
 public:
  ChannelMoments(Index channels, int threads);

  // Adds a chunk for thread t: `rows` rows, `row_step` apart, of `count` pixels, `step` apart, with `width`
  // channels from `first` on; `at` points at the first channel.
  template <class S>
  void add(int t, const S* at, Index rows, Index row_step, Index count, Index step, Index first, Index width);

  // Σ x and Σ x² per channel, f64 [2,C]. Relative error of the variance: 10⁻⁶ for a mean of 10⁵ deviations.
  Tensor sums() const;

 private:
  struct Lanes {
    double sum[kLanes], squares[kLanes];
    float shift[kLanes], origin[kLanes];
    double count;  // values per lane; 0: shift and origin are unset
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
    // The first value is a good shift.
    if (l.count == 0.0) {
      store(l.shift, load(at));
      store(l.origin, load(at));
    }
    const Vec k = load(l.shift);
    // Four accumulators each, to hide the latency of additions.
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
