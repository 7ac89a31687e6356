// Batch norm: one pass for sums and a second that writes, fused with the residual add, relu and its bit mask.
//
// Statistics are accurate to a few ulp of the compute type for any mean (core/cpu/kernels/moments.h), with
// chunks of at most kPeriodsPerChunk values and the first row as origin. Sums from the preceding convolution
// (Backend::conv2d_with_sums) replace the first pass. The second pass runs backwards to reuse cached data.
#include <unistd.h>

#include <array>
#include <cmath>

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/moments.h"
#include "core/cpu/kernels/norm_kernels.h"
#include "core/error.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

double element(const Tensor& t, Index i) {
  return visit_floating(t.dtype(), [&]<class S>(TypeTag<S>) { return convert<double>(t.data<S>()[i]); });
}

void set_element(const Tensor& t, Index i, double value, bool accumulate = false) {
  visit_floating(t.dtype(), [&]<class S>(TypeTag<S>) {
    S& target = t.data<S>()[i];
    target = convert<S>(accumulate ? convert<double>(target) + value : value);
  });
}

// Minimum size in bytes of an output for non-temporal stores: half of the last-level cache, or all of L2 on
// Intel servers, whose L3 spans the mesh of a socket and stores as slowly as memory. One core of a Xeon
// (Emerald Rapids, 260 MB shared L3) stores 8 to 12 GB/s at any size, and 20 with non-temporal stores; the
// writing passes of batch norm in a step of ResNet-50, batch 8, take 120 ms instead of 170.
std::size_t stream_threshold() {
  static const std::size_t bytes = [] {
    constexpr long kLargestOfFewCores = 48L << 20;
    const long second = sysconf(_SC_LEVEL2_CACHE_SIZE), last = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (cpu_model().find("Xeon") != std::string::npos && last > kLargestOfFewCores && second > 0)
      return static_cast<std::size_t>(second);
    return last > 0 ? static_cast<std::size_t>(last) / 2 : std::size_t{16} << 20;
  }();
  return bytes;
}

bool streams(const Tensor& y) {
  return y.defined() && y.bytes() >= stream_threshold() &&
         reinterpret_cast<std::uintptr_t>(y.raw()) % 64 == 0;
}

// Arrays of one call: coefficients common to all threads, and sums per thread.
template <class T>
class Workspace {
 public:
  Workspace(const NormPeriod& p, int threads) : width_(p.width) {
    const std::size_t arrays = kCommon * sizeof(T) + static_cast<std::size_t>(threads) * per_thread();
    memory_ = workspace<std::uint8_t>({static_cast<Index>(arrays) * p.width});
  }

  enum Common { origin, centre, scale, slope, offset, kCommon };
  T* common(Common which) const { return reinterpret_cast<T*>(base()) + which * width_; }

  NormSums<T> sums(int thread) const {
    std::byte* start = base() + static_cast<std::size_t>(width_) *
                                    (kCommon * sizeof(T) + static_cast<std::size_t>(thread) * per_thread());
    auto* wide = reinterpret_cast<double*>(start);
    auto* chunk = reinterpret_cast<T*>(wide + 2 * width_);
    return {chunk, chunk + width_, chunk + 2 * width_, wide, wide + width_};
  }

 private:
  static constexpr std::size_t per_thread() { return 3 * sizeof(T) + 2 * sizeof(double); }
  std::byte* base() const { return static_cast<std::byte*>(memory_.raw()); }

  Index width_;
  Tensor memory_;
};

template <class T>
void clear(const NormSums<T>& sums, Index width) {
  std::fill_n(sums.chunk_sum, width, T(0));
  std::fill_n(sums.chunk_squares, width, T(0));
  std::fill_n(sums.sum, width, 0.0);
  std::fill_n(sums.squares, width, 0.0);
}

template <class T>
void fold_statistics(const NormSums<T>& sums, const T* origin, Index width, Index count) {
  for (Index l = 0; l < width; ++l) {
    fold_chunk(static_cast<double>(count), sums.chunk_sum[l], sums.chunk_squares[l], origin[l], sums.shift[l],
               sums.sum[l], sums.squares[l]);
    sums.chunk_sum[l] = sums.chunk_squares[l] = T(0);
  }
}

template <class T>
void fold_gradients(const NormSums<T>& sums, Index width) {
  for (Index l = 0; l < width; ++l) {
    sums.sum[l] += sums.chunk_sum[l];
    sums.squares[l] += sums.chunk_squares[l];
    sums.chunk_sum[l] = sums.chunk_squares[l] = T(0);
  }
}

// Totals of channel c over lanes and threads, in a fixed order.
template <class T>
std::array<double, 2> totals(const Workspace<T>& workspace, const NormPeriod& p, int threads, Index c) {
  std::array<double, 2> total{};
  for (int t = 0; t < threads; ++t) {
    const NormSums<T> sums = workspace.sums(t);
    for (Index l = c; l < p.width; l += p.channels) {
      total[0] += sums.sum[l];
      total[1] += sums.squares[l];
    }
  }
  return total;
}

// Calls body(period, count) for chunks of the range, last chunk first.
template <class Body>
void backwards(Range range, Body&& body) {
  for (Index last = range.last; last > range.first;) {
    const Index count = std::min(kPeriodsPerChunk, last - range.first);
    last -= count;
    body(last, count);
  }
}

// Calls body(element, lane, count) for blocks of the tail.
template <class Body>
void over_tail(const NormPeriod& p, Body&& body) {
  for (Index l = 0; l < p.tail; l += kBlock) body(p.periods * p.width + l, l, std::min(kBlock, p.tail - l));
}

// Coefficients of y = (x - mean)·gamma·rstd + beta for channel c. The mean is split in two, so that the
// difference is exact for large means.
template <class T>
void set_coefficients(const Workspace<T>& w, const NormPeriod& p, Index c, double mean, double scale,
                      double beta) {
  const T high = static_cast<T>(mean);
  for (Index l = c; l < p.width; l += p.channels) {
    w.common(w.centre)[l] = high;
    w.common(w.scale)[l] = static_cast<T>(scale);
    w.common(w.offset)[l] = static_cast<T>(beta - (mean - static_cast<double>(high)) * scale);
  }
}

template <class T>
NormApply<T> apply_arguments(const BatchNormForward& a, const Workspace<T>& w) {
  return {.x = a.x,
          .residual = a.residual,
          .y = a.y,
          .mask = a.mask.defined() ? a.mask.data<std::uint8_t>() : nullptr,
          .centre = w.common(w.centre),
          .scale = w.common(w.scale),
          .offset = w.common(w.offset),
          .relu = a.relu,
          .stream = streams(a.y)};
}

template <class Kernels>
void apply_range(const NormPeriod& p, const NormApply<typename Kernels::T>& apply, Range range,
                 bool with_tail) {
  if (with_tail) {
    over_tail(p, [&](Index o, Index l, Index n) {
      MixedKernels<typename Kernels::T>::apply_block(apply, o, l, n);
    });
  }
  backwards(range, [&](Index period, Index count) { Kernels::apply(p, apply, period, count); });
  if (apply.stream) fence();
}

// Minimum number of channels whose statistics several threads finish.
constexpr Index kParallelChannels = 512;

template <class Kernels>
void gather_statistics(const NormPeriod& p, const Tensor& x, Range range, bool with_tail,
                       const NormSums<typename Kernels::T>& sums, const typename Kernels::T* origin) {
  using T = typename Kernels::T;
  clear(sums, p.width);
  std::copy_n(origin, p.width, sums.shift);
  if (range.first < range.last) {
    // The first chunk is read twice: the first time only for its mean.
    const Index count = std::min(kPeriodsPerChunk, range.last - range.first);
    Kernels::statistics(p, x, range.first, count, sums);
    for (Index l = 0; l < p.width; ++l) sums.shift[l] += sums.chunk_sum[l] / static_cast<T>(count);
    std::fill_n(sums.chunk_sum, p.width, T(0));
    std::fill_n(sums.chunk_squares, p.width, T(0));
  }
  for (Index period = range.first; period < range.last; period += kPeriodsPerChunk) {
    const Index count = std::min(kPeriodsPerChunk, range.last - period);
    Kernels::statistics(p, x, period, count, sums);
    fold_statistics(sums, origin, p.width, count);
  }
  if (with_tail) {
    over_tail(p, [&](Index o, Index l, Index n) {
      T values[kBlock];
      load_block(x.raw(), x.dtype(), o, values, n);
      for (Index i = 0; i < n; ++i) {
        const double d = static_cast<double>(values[i]) - static_cast<double>(origin[l + i]);
        sums.sum[l + i] += d;
        sums.squares[l + i] += d * d;
      }
    });
  }
}

// Mean and Σ (x - mean)² of one channel.
struct Moments {
  double mean, deviation;
};

template <class T>
Moments moments_of(const NormPeriod& p, const Workspace<T>& w, int threads, Index c) {
  const auto [sum, squares] = totals(w, p, threads, c);
  const double n = static_cast<double>(p.rows);
  return {static_cast<double>(w.common(w.origin)[c]) + sum / n, squares - sum * (sum / n)};
}

// Moments from Σ x and Σ x².
Moments moments_of(const NormPeriod& p, const Tensor& sums, Index c) {
  const double sum = element(sums, c), mean = sum / static_cast<double>(p.rows);
  return {mean, element(sums, p.channels + c) - sum * mean};
}

template <class T>
void finish_statistics(const BatchNormForward& a, const NormPeriod& p, const Workspace<T>& w,
                       const Moments& moments, Index c) {
  const double n = static_cast<double>(p.rows), mean = moments.mean;
  const double total = moments.deviation < 0.0 ? 0.0 : moments.deviation;  // keeps NaN
  const double rstd = 1.0 / std::sqrt(total / n + a.eps);
  set_element(a.mean, c, mean);
  set_element(a.rstd, c, rstd);
  if (a.next_mean.defined())
    set_element(a.next_mean, c, (1.0 - a.momentum) * element(a.running_mean, c) + a.momentum * mean);
  if (a.next_var.defined())
    set_element(a.next_var, c,
                (1.0 - a.momentum) * element(a.running_var, c) + a.momentum * (total / (n - 1.0)));
  const double gamma = a.gamma.defined() ? element(a.gamma, c) : 1.0;
  set_coefficients(w, p, c, mean, gamma * rstd, a.beta.defined() ? element(a.beta, c) : 0.0);
}

template <class Kernels>
void train(const BatchNormForward& a, const NormPeriod& p) {
  using T = typename Kernels::T;
  const bool given = a.sums.defined();
  const Workspace<T> w(p, given ? 0 : team_size(a.x.numel()));
  T* origin = w.common(w.origin);
  if (!given) {
    load_block(a.x.raw(), a.x.dtype(), 0, origin, p.channels);
    for (Index l = p.channels; l < p.width; ++l) origin[l] = origin[l - p.channels];
  }
  const NormApply<T> apply = apply_arguments(a, w);
  const int parts = team_size(a.x.numel());
  if (!given) {
    on_team(a.x.numel(), [&](int part, int) {
      gather_statistics<Kernels>(p, a.x, part_of(p.periods, part, parts), part == parts - 1, w.sums(part),
                                 origin);
    });
  }
  parallel_for(parts > 1 && p.channels >= kParallelChannels, p.channels, [&](Index c) {
    finish_statistics(a, p, w, given ? moments_of(p, a.sums, c) : moments_of(p, w, parts, c), c);
  });
  if (!apply.y.defined()) return;  // statistics only
  on_team(a.x.numel(), [&](int part, int) {
    apply_range<Kernels>(p, apply, part_of(p.periods, part, parts), part == parts - 1);
  });
}

template <class Kernels>
void infer(const BatchNormForward& a, const NormPeriod& p) {
  using T = typename Kernels::T;
  const Workspace<T> w(p, 0);
  for (Index c = 0; c < p.channels; ++c) {
    const double rstd = 1.0 / std::sqrt(element(a.running_var, c) + a.eps);
    const double gamma = a.gamma.defined() ? element(a.gamma, c) : 1.0;
    set_coefficients(w, p, c, element(a.running_mean, c), gamma * rstd,
                     a.beta.defined() ? element(a.beta, c) : 0.0);
  }
  const NormApply<T> apply = apply_arguments(a, w);
  on_team(a.x.numel(), [&](int thread, int threads) {
    apply_range<Kernels>(p, apply, part_of(p.periods, thread, threads), thread == threads - 1);
  });
}

template <class T>
void finish_gradients(const BatchNormBackward& a, const NormPeriod& p, const Workspace<T>& w, int threads,
                      Index c) {
  const auto [sum, product] = totals(w, p, threads, c);
  const double rstd = element(a.rstd, c), n = static_cast<double>(p.rows);
  const double dgamma = product * rstd;
  if (a.dbeta.defined()) set_element(a.dbeta, c, sum, a.accumulate_dbeta);
  if (a.dgamma.defined()) set_element(a.dgamma, c, dgamma, a.accumulate_dgamma);
  const double scale = (a.gamma.defined() ? element(a.gamma, c) : 1.0) * rstd;
  for (Index l = c; l < p.width; l += p.channels) {
    w.common(w.scale)[l] = static_cast<T>(scale);
    w.common(w.slope)[l] = a.frozen ? T(0) : static_cast<T>(-scale * rstd * dgamma / n);
    w.common(w.offset)[l] = a.frozen ? T(0) : static_cast<T>(-scale * sum / n);
  }
}

template <class Kernels>
void gather_gradients(const NormPeriod& p, const NormBackward<typename Kernels::T>& b, Range range,
                      bool with_tail, const NormSums<typename Kernels::T>& sums) {
  using T = typename Kernels::T;
  clear(sums, p.width);
  for (Index period = range.first; period < range.last; period += kPeriodsPerChunk) {
    Kernels::gradient_sums(p, b, period, std::min(kPeriodsPerChunk, range.last - period), sums);
    fold_gradients(sums, p.width);
  }
  if (with_tail) {
    over_tail(p, [&](Index o, Index l, Index n) {
      T x[kBlock], g[kBlock];
      load_block(b.x.raw(), b.x.dtype(), o, x, n);
      MixedKernels<T>::load_gradient(b, o, g, n);
      for (Index i = 0; i < n; ++i) {
        sums.sum[l + i] += static_cast<double>(g[i]);
        sums.squares[l + i] += static_cast<double>(g[i]) * static_cast<double>(x[i] - b.centre[l + i]);
      }
    });
  }
}

template <class Kernels>
void backward(const BatchNormBackward& a, const NormPeriod& p) {
  using T = typename Kernels::T;
  const Workspace<T> w(p, team_size(a.x.numel()));
  for (Index l = 0; l < p.width; ++l) w.common(w.centre)[l] = static_cast<T>(element(a.mean, l % p.channels));
  const bool in_place = a.dx.defined() && a.dx.shares_storage(a.dy);
  // Without relu the residual's gradient equals dy; nothing is written if both share memory.
  const bool dresidual_is_dy =
      a.dresidual.defined() && !a.relu && !a.accumulate_dresidual && a.dresidual.is_same(a.dy);
  const NormBackward<T> b{.x = a.x,
                          .dy = a.dy,
                          .dx = a.dx,
                          .dresidual = dresidual_is_dy ? Tensor{} : a.dresidual,
                          .mask = a.relu ? a.mask.data<std::uint8_t>() : nullptr,
                          .centre = w.common(w.centre),
                          .scale = w.common(w.scale),
                          .slope = w.common(w.slope),
                          .offset = w.common(w.offset),
                          .accumulate_dx = a.accumulate_dx,
                          .accumulate_dresidual = a.accumulate_dresidual,
                          .stream = !in_place && !a.accumulate_dx && streams(a.dx)};
  const int parts = team_size(a.x.numel());
  on_team(a.x.numel(), [&](int part, int) {
    gather_gradients<Kernels>(p, b, part_of(p.periods, part, parts), part == parts - 1, w.sums(part));
  });
  parallel_for(parts > 1 && p.channels >= kParallelChannels, p.channels,
               [&](Index c) { finish_gradients(a, p, w, parts, c); });
  if (!b.dx.defined() && !b.dresidual.defined()) return;
  on_team(a.x.numel(), [&](int part, int) {
    if (part == parts - 1)
      over_tail(p, [&](Index o, Index l, Index n) { MixedKernels<T>::backward_block(b, o, l, n); });
    backwards(part_of(p.periods, part, parts),
              [&](Index period, Index count) { Kernels::backward(p, b, period, count); });
    if (b.stream) fence();
  });
}

// Calls run with the kernels for these tensors; undefined tensors are ignored.
template <class Run>
void with_kernels(std::initializer_list<const Tensor*> tensors, const NormPeriod& p, Run&& run) {
  const DType first = (*tensors.begin())->dtype();
  bool alike = true, any_f64 = false;
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    alike &= t->dtype() == first;
    any_f64 |= t->dtype() == DType::f64;
  }
  if (p.channels == 0) return;
  if (any_f64) return run.template operator()<MixedKernels<double>>();
  if (!alike) return run.template operator()<MixedKernels<float>>();
  visit_below_f64(first, [&]<class S>(TypeTag<S>) { run.template operator()<VectorKernels<S>>(); });
}

NormPeriod period_of(const Tensor& x) {
  const Index channels = x.size(-1);
  return channels == 0 ? NormPeriod(0, 1) : NormPeriod(x.numel() / channels, channels);
}

}  // namespace

void CpuNorm::batch_norm_train(const BatchNormForward& args) {
  if (args.x.numel() == 0) return;
  const NormPeriod p = period_of(args.x);
  with_kernels({&args.x, &args.residual, &args.y}, p, [&]<class Kernels>() { train<Kernels>(args, p); });
}

void CpuNorm::batch_norm_infer(const BatchNormForward& args) {
  if (args.x.numel() == 0) return;
  const NormPeriod p = period_of(args.x);
  with_kernels({&args.x, &args.residual, &args.y}, p, [&]<class Kernels>() { infer<Kernels>(args, p); });
}

void CpuNorm::batch_norm_backward(const BatchNormBackward& args) {
  if (args.x.numel() == 0) {
    for (const auto& [target, accumulate] :
         {std::pair{args.dgamma, args.accumulate_dgamma}, {args.dbeta, args.accumulate_dbeta}}) {
      if (target.defined() && !accumulate) backend().fill(target, 0.0);
    }
    return;
  }
  const NormPeriod p = period_of(args.x);
  with_kernels({&args.x, &args.dy, &args.dx, &args.dresidual}, p,
               [&]<class Kernels>() { backward<Kernels>(args, p); });
}

NormKernels& CpuBackend::norm() { return instance<CpuNorm>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
