// Row helpers of softmax and the losses on it. Sums use kSumLanes interleaved partial sums that are folded in
// halves: the order depends only on the length, not on the address or the thread.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "core/cpu/kernels/blocks.h"
#include "core/error.h"
#include "core/kernels/math.h"
#include "core/kernels/softmax.h"
#include "core/tensor.h"

namespace tandem::cpu::TANDEM_LEVEL {

struct CpuSoftmax final : SoftmaxKernels {
  void softmax(const Tensor& x, int axis, bool log, const Tensor& y) override;
  void softmax_backward(const Tensor& y, const Tensor& dy, int axis, bool log, const Tensor& dx) override;
  void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& class_weights,
                     const CrossEntropyOptions& options, const Tensor& loss, const Tensor& row_weight,
                     const Tensor& lse) override;
  void cross_entropy_backward(const Tensor& logits, const Tensor& targets, const Tensor& class_weights,
                              const CrossEntropyOptions& options, const Tensor& lse, const Tensor& dloss,
                              const Tensor& dlogits) override;
  void dice_sums(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                 const Tensor& sums) override;
  void dice_backward(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                     const Tensor& slopes, const Tensor& dlogits) override;
};

inline constexpr int kSumLanes = 32;

// Minimum number of exponentials for a multi-threaded kernel.
inline constexpr Index kParallelExponentials = kParallelElements / 4;

// Calls visit(double{}) when any of the tensors is f64, and visit(float{}) otherwise.
template <class Visitor, class... Tensors>
void visit_compute(Visitor&& visit, const Tensors&... tensors) {
  if (((tensors.dtype() == DType::f64) || ...)) return visit(double{});
  visit(float{});
}

// Folds kWidth lanes by halves with `both`. Constant widths compile to vectors.
template <int kWidth = kSumLanes, class C, class Both>
C folded(C* lane, const Both& both) {
  if constexpr (kWidth == 1) {
    return lane[0];
  } else {
    for (int i = 0; i < kWidth / 2; ++i) lane[i] = both(lane[i], lane[i + kWidth / 2]);
    return folded<kWidth / 2>(lane, both);
  }
}

template <class C>
struct LaneSums {
  C lane[kSumLanes] = {};

  C total() { return folded(lane, std::plus<C>()); }
};

// Σ term(i) for i in [0, count).
template <class C, class Term>
C sum_of(Index count, const Term& term) {
  LaneSums<C> sums;
  Index i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    for (int l = 0; l < kSumLanes; ++l) sums.lane[l] += term(i + l);
  }
  for (int l = 0; i + l < count; ++l) sums.lane[l] += term(i + l);
  return sums.total();
}

// Calls add(lanes) for each kSumLanes elements of x; the last run is padded with -inf. A scalar remainder
// loop would take longer than the rest of a short row.
template <class C, class Add>
void for_each_run(const C* x, Index count, const Add& add) {
  Index i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) add(x + i);
  if (i == count) return;
  C rest[kSumLanes];
  std::fill_n(rest, kSumLanes, -std::numeric_limits<C>::infinity());
  std::copy(x + i, x + count, rest);
  add(static_cast<const C*>(rest));
}

// The largest element that is not NaN; -inf if there is none.
template <class C>
C largest_of_each(const C* x, Index count) {
  C lane[kSumLanes];
  std::fill_n(lane, kSumLanes, -std::numeric_limits<C>::infinity());
  const auto greater = [](C a, C b) { return b > a ? b : a; };
  for_each_run(x, count, [&](const C* run) {
    for (int l = 0; l < kSumLanes; ++l) lane[l] = greater(lane[l], run[l]);
  });
  return folded(lane, greater);
}

// Σ exp(x - top), in the order of sum_of; exp(-inf) is 0.
template <class C>
C exponential_sum_of_each(const C* x, Index count, C top) {
  C lane[kSumLanes];
  std::fill_n(lane, kSumLanes, C(-0.0));  // for +0 compilers emit a string operation, slower than a run
  for_each_run(x, count, [&](const C* run) {
    for (int l = 0; l < kSumLanes; ++l) lane[l] += math::exp(run[l] - top);
  });
  return folded(lane, std::plus<C>());
}

// Maximum and exponential sum of floats or 16-bit values, widened on load, in vectors that stay in registers
// and with an exp just accurate enough for a sum.

static_assert(kSumLanes == 2 * kLanes);

template <class S>
concept ReadAsFloat = std::is_same_v<S, float> || is_16bit_v<S>;

template <ReadAsFloat S>
float largest_of(const S* x, Index count) {
  if (count < kLanes) {
    float few[kLanes] = {};
    load_block(x, few, count);
    return largest_of_each<float>(few, count);
  }
  Vec low = broadcast(-std::numeric_limits<float>::infinity()), high = low;
  Index i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    low = max(load(x + i), low);
    high = max(load(x + i + kLanes), high);
  }
  if (i + kLanes <= count) low = max(load(x + i), low);
  high = max(load(x + count - kLanes), high);
  return largest(max(low, high));
}

// exp(x) for x <= 0, a term of a sum that contains a term 1: 2^k·e^r with x = k·ln 2 + r, and e^r by a
// minimax polynomial within 2^-28. The error of ln 2 grows with k while the term vanishes. Values below
// kFaintest, including -inf, are clamped to it: they are negligible beside 1, and no result is subnormal.
inline constexpr float kFaintest = -86.0f;
TANDEM_HD Vec exponential_term(Vec x) {
  const Vec bounded = max(broadcast(kFaintest), x), bias = broadcast(kBias);
  const Vec biased = fma(bounded, broadcast(1.44269504f), bias);
  const Vec r = fma(biased - bias, broadcast(-0.693147181f), bounded);
  Vec p = broadcast(1.381454058e-03f);
  for (const float c : {8.368745446e-03f, 4.166838899e-02f, 1.666652113e-01f, 4.999999404e-01f, 1.0f, 1.0f})
    p = fma(p, r, broadcast(c));
  return p * power_of_two(biased);
}

template <ReadAsFloat S>
float exponential_sum_of(const S* x, Index count, float top) {
  if (count < kLanes) {
    float few[kLanes] = {};
    load_block(x, few, count);
    return exponential_sum_of_each<float>(few, count, top);
  }
  const Vec shift = broadcast(top);
  Vec low = zero(), high = zero();
  Index i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    low = low + exponential_term(load(x + i) - shift);
    high = high + exponential_term(load(x + i + kLanes) - shift);
  }
  if (i + kLanes <= count) {
    low = low + exponential_term(load(x + i) - shift);
    i += kLanes;
  }
  const auto rest = static_cast<int>(count - i);
  if (rest == 1) return sum(low + high) + math::exp(convert<float>(x[i]) - top);  // e.g. COCO's 81 classes
  // The remaining elements are the last lanes of the vector that ends with the row.
  const std::uint32_t last = ~0u << (kLanes - rest);
  if (rest > 0) high = high + keep(last, exponential_term(load(x + count - kLanes) - shift));
  return sum(low + high);
}

inline double largest_of(const double* x, Index count) { return largest_of_each(x, count); }
inline double exponential_sum_of(const double* x, Index count, double top) {
  return exponential_sum_of_each(x, count, top);
}

// y = softmax of x, `count` elements; y may be x.
template <class C>
void softmax_of(const C* x, Index count, C* y) {
  const C top = largest_of(x, count);
  for (Index i = 0; i < count; ++i) y[i] = math::exp(x[i] - top);
  const C factor = C(1) / sum_of<C>(count, [&](Index i) { return y[i]; });
  for (Index i = 0; i < count; ++i) y[i] *= factor;
}

// Gradient dx from the result y of softmax and the gradient g; dx may be g.
template <class C>
void softmax_gradient_of(const C* y, const C* g, Index count, C* dx) {
  const C dot = sum_of<C>(count, [&](Index i) { return g[i] * y[i]; });
  for (Index i = 0; i < count; ++i) dx[i] = y[i] * (g[i] - dot);
}

// Rows, or parts of rows, in the compute type: in place if stored so, else as a widened copy. Long converted
// rows are read in parts of kBlock, which stay in L1.
template <class C>
class RowReader {
 public:
  RowReader(const Tensor& x, Index width) : data_(x.raw()), dtype_(x.dtype()), width_(width) {
    if (dtype_ != dtype_of<C>()) held_.resize(static_cast<std::size_t>(width));
  }

  const C* operator()(Index row) { return (*this)(row, {0, width_}); }
  const C* operator()(Index row, Range columns) {
    const Index first = row * width_ + columns.first;
    if (held_.empty()) return static_cast<const C*>(data_) + first;
    load_block(data_, dtype_, first, held_.data(), columns.count());
    return held_.data();
  }

 private:
  const void* data_;
  DType dtype_;
  Index width_;
  std::vector<C> held_;
};

// The same for output rows: a row of another dtype is computed in a buffer and rounded once.
template <class C>
class RowWriter {
 public:
  RowWriter(const Tensor& y, Index width)
      : data_(static_cast<std::byte*>(y.raw())),
        dtype_(y.dtype()),
        width_(width),
        streams_(y.bytes() >= kStreamed) {
    if (dtype_ != dtype_of<C>()) held_.resize(static_cast<std::size_t>(width));
  }
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;
  ~RowWriter() {
    if (streams_) fence();
  }

  // Calls compute(C*) and stores what it wrote.
  template <class Compute>
  void operator()(Index row, const Compute& compute) {
    (*this)(row, {0, width_}, compute);
  }
  template <class Compute>
  void operator()(Index row, Range columns, const Compute& compute) {
    const Index first = row * width_ + columns.first;
    if (held_.empty()) return compute(reinterpret_cast<C*>(data_) + first);
    compute(held_.data());
    store_block(held_.data(), data_, dtype_, first, columns.count());
  }

  // Writes zeros, which are all-zero bits in every dtype. Whole lines of a tensor larger than the caches use
  // non-temporal stores, which do not read the lines first.
  void clear(Index first, Index rows) {
    const std::size_t width = static_cast<std::size_t>(width_) * size_of(dtype_);
    std::byte* from = data_ + static_cast<std::size_t>(first) * width;
    std::byte* const end = from + static_cast<std::size_t>(rows) * width;
    if (streams_ && end - from >= kLongRun) {
      const std::size_t before = -reinterpret_cast<std::uintptr_t>(from) % kLine;
      std::memset(from, 0, before);
      for (from += before; from + kLine <= end; from += kLine) stream(reinterpret_cast<float*>(from), zero());
    }
    std::memset(from, 0, static_cast<std::size_t>(end - from));
  }

 private:
  static constexpr std::size_t kStreamed = std::size_t{16} << 20, kLine = kLanes * sizeof(float);
  static constexpr std::ptrdiff_t kLongRun = 1024;  // bytes; partial lines are then few

  std::byte* data_;
  DType dtype_;
  Index width_;
  bool streams_;
  std::vector<C> held_;
};

// kLanes rows of few columns, transposed: column k of row r is at k·kLanes + r, in the compute type. Missing
// rows are 0.
template <class C>
class RowBlock {
 public:
  explicit RowBlock(Index width)
      : width_(width), flat_(static_cast<std::size_t>(width * kLanes)), x_(flat_.size()) {}

  C* column(Index k) { return x_.data() + k * kLanes; }
  const C* column(Index k) const { return x_.data() + k * kLanes; }

  void load(const Tensor& from, Index first, Index rows) {
    load_block(from.raw(), from.dtype(), first * width_, flat_.data(), rows * width_);
    std::fill(flat_.begin() + rows * width_, flat_.end(), C(0));
    for (Index r = 0; r < kLanes; ++r) {
      for (Index k = 0; k < width_; ++k) column(k)[r] = flat_[static_cast<std::size_t>(r * width_ + k)];
    }
  }
  void store(const Tensor& to, Index first, Index rows) {
    for (Index r = 0; r < rows; ++r) {
      for (Index k = 0; k < width_; ++k) flat_[static_cast<std::size_t>(r * width_ + k)] = column(k)[r];
    }
    store_block(flat_.data(), to.raw(), to.dtype(), first * width_, rows * width_);
  }

 private:
  Index width_;
  std::vector<C> flat_, x_;
};

// The targets as i64, read from any integer dtype.
class Targets {
 public:
  explicit Targets(const Tensor& targets) : dtype_(targets.dtype()), data_(targets.raw()) {
    ensure(dtype_ == DType::i64 || dtype_ == DType::i32 || dtype_ == DType::u8, "softmax", "targets are {}",
           name_of(dtype_));
  }
  Index operator[](Index row) const {
    switch (dtype_) {
      case DType::u8:
        return static_cast<const std::uint8_t*>(data_)[row];
      case DType::i32:
        return static_cast<const std::int32_t*>(data_)[row];
      default:
        return static_cast<const std::int64_t*>(data_)[row];
    }
  }

 private:
  DType dtype_;
  const void* data_;
};

}  // namespace tandem::cpu::TANDEM_LEVEL
