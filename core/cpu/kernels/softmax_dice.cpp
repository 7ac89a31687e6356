// Sums of the Dice loss and their gradient, fused with the softmax of each row, without a copy of all
// probabilities. Rows are short and many, so kLanes rows are transposed and processed together.
//
// Sums are f32 within kRows rows and f64 across them, in an order that depends on the number of rows.
#include <array>

#include "core/cpu/kernels/softmax_rows.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

constexpr Index kRows = 1024;      // rows per partial sum
constexpr Index kMostParts = 512;  // maximum number of partial sums

// The probabilities of kLanes rows.
template <class C>
class Probabilities {
 public:
  Probabilities(const Tensor& logits, const Targets& targets, const DiceOptions& options)
      : p(logits.shape()[1]),
        logits_(logits),
        targets_(targets),
        options_(options),
        classes_(logits.shape()[1]) {}

  RowBlock<C> p;                       // 0 in ignored or missing rows, NaN for a bad target
  std::array<Index, kLanes> target{};  // -1: not counted

  void compute(Index first, Index rows) {
    p.load(logits_, first, rows);
    C factor[kLanes];
    classes_ == 1 ? sigmoid(factor) : softmax(factor);
    look_up(first, rows, factor);
    for (Index k = 0; k < classes_; ++k) {
      C* of = p.column(k);
      for (int r = 0; r < kLanes; ++r) of[r] = factor[r] == C(0) ? C(0) : of[r] * factor[r];
    }
  }

 private:
  void sigmoid(C* factor) {
    C* of = p.column(0);
    for (int r = 0; r < kLanes; ++r) {
      of[r] = math::sigmoid(of[r]);
      factor[r] = C(1);
    }
  }

  // Computes exponentials in place, and the factors that normalise them.
  void softmax(C* factor) {
    C top[kLanes], sum[kLanes] = {};
    std::copy_n(p.column(0), kLanes, top);
    for (Index k = 1; k < classes_; ++k) {
      const C* of = p.column(k);
      for (int r = 0; r < kLanes; ++r) top[r] = of[r] > top[r] ? of[r] : top[r];
    }
    for (Index k = 0; k < classes_; ++k) {
      C* of = p.column(k);
      for (int r = 0; r < kLanes; ++r) {
        of[r] = math::exp(of[r] - top[r]);
        sum[r] += of[r];
      }
    }
    for (int r = 0; r < kLanes; ++r) factor[r] = C(1) / sum[r];
  }

  void look_up(Index first, Index rows, C* factor) {
    const Index bound = std::max<Index>(classes_, 2);
    for (Index r = 0; r < kLanes; ++r) {
      auto& own = target[static_cast<std::size_t>(r)];
      own = r < rows ? targets_[first + r] : -1;
      if (r >= rows || own == options_.ignore_index) {
        own = -1;
        factor[r] = C(0);
      } else if (own < 0 || own >= bound) {
        own = -1;
        factor[r] = std::numeric_limits<C>::quiet_NaN();
      }
    }
  }

  const Tensor& logits_;
  const Targets& targets_;
  const DiceOptions& options_;
  const Index classes_;
};

// The class whose sum the target counts for, or -1; with one class the target is a binary mask.
Index counted_class(Index target, Index classes) {
  if (classes > 1) return target;
  return target == 1 ? 0 : -1;
}

// Adds the sums of rows [first, last) to sums [3,K].
template <class C>
void add_sums(Probabilities<C>& rows, const DiceOptions& options, Index classes, Index first, Index last,
              double* sums) {
  std::vector<C> lanes(static_cast<std::size_t>(classes * kLanes), C(0));
  for (Index row = first; row < last; row += kLanes) {
    rows.compute(row, std::min<Index>(kLanes, last - row));
    const C* all = rows.p.column(0);
    for (Index i = 0; i < classes * kLanes; ++i)
      lanes[static_cast<std::size_t>(i)] += options.squared ? all[i] * all[i] : all[i];
    for (Index r = 0; r < kLanes; ++r) {
      const Index k = counted_class(rows.target[static_cast<std::size_t>(r)], classes);
      if (k < 0) continue;
      sums[k] += static_cast<double>(rows.p.column(k)[r]);
      sums[2 * classes + k] += 1.0;
    }
  }
  for (Index k = 0; k < classes; ++k) {
    for (Index r = 0; r < kLanes; ++r)
      sums[classes + k] += static_cast<double>(lanes[static_cast<std::size_t>(k * kLanes + r)]);
  }
}

template <class C>
void sum_rows(const Tensor& logits, const Targets& targets, const DiceOptions& options, C* sums) {
  const Index rows = logits.shape()[0], classes = logits.shape()[1], width = 3 * classes;
  const Index runs = (rows + kRows - 1) / kRows, parts = std::min(runs, kMostParts);
  std::vector<double> partial(static_cast<std::size_t>(parts * width), 0.0);
  parallel_ranges(rows * classes >= kParallelElements / 4, parts, [&](Range range) {
    Probabilities<C> block(logits, targets, options);
    for (Index part = range.first; part < range.last; ++part) {
      const Range own = part_of(runs, part, parts);
      for (Index run = own.first; run < own.last; ++run)
        add_sums(block, options, classes, run * kRows, std::min(rows, (run + 1) * kRows),
                 partial.data() + part * width);
    }
  });
  for (Index i = 0; i < width; ++i) {
    double total = 0.0;
    for (Index part = 0; part < parts; ++part) total += partial[static_cast<std::size_t>(part * width + i)];
    sums[i] = static_cast<C>(total);
  }
}

// With dp = ∂/∂p, the gradient is p·(dp - Σ p·dp) for softmax and p·(1-p)·dp for sigmoid.
template <class C>
void gradient_of_rows(const Probabilities<C>& rows, const DiceOptions& options, Index classes,
                      const C* slopes, RowBlock<C>& dx) {
  C dot[kLanes] = {};
  const C* on_all = slopes + classes;
  for (Index k = 0; k < classes; ++k) {
    const C *p = rows.p.column(k), slope = on_all[k];
    C* to = dx.column(k);
    for (int r = 0; r < kLanes; ++r) {
      to[r] = options.squared ? C(2) * slope * p[r] : slope;
      dot[r] += p[r] * to[r];
    }
  }
  for (Index r = 0; r < kLanes; ++r) {
    const Index k = counted_class(rows.target[static_cast<std::size_t>(r)], classes);
    if (k < 0) continue;
    dot[r] += slopes[k] * rows.p.column(k)[r];
    dx.column(k)[r] += slopes[k];
  }
  for (Index k = 0; k < classes; ++k) {
    const C* p = rows.p.column(k);
    C* to = dx.column(k);
    if (classes == 1) {
      for (int r = 0; r < kLanes; ++r) to[r] = p[r] * (C(1) - p[r]) * to[r];
    } else {
      for (int r = 0; r < kLanes; ++r) to[r] = p[r] * (to[r] - dot[r]);
    }
  }
}

template <class C>
void backward_rows(const Tensor& logits, const Targets& targets, const DiceOptions& options, const C* slopes,
                   const Tensor& dlogits) {
  const Index rows = logits.shape()[0], classes = logits.shape()[1];
  parallel_ranges(rows * classes >= kParallelElements / 4, (rows + kLanes - 1) / kLanes, [&](Range range) {
    Probabilities<C> block(logits, targets, options);
    RowBlock<C> dx(classes);
    for (Index run = range.first; run < range.last; ++run) {
      const Index first = run * kLanes, count = std::min<Index>(kLanes, rows - first);
      block.compute(first, count);
      gradient_of_rows(block, options, classes, slopes, dx);
      dx.store(dlogits, first, count);
    }
  });
}

}  // namespace

void CpuSoftmax::dice_sums(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                           const Tensor& sums) {
  visit_compute([&]<class C>(C) { sum_rows<C>(logits, Targets(targets), options, sums.data<C>()); }, logits);
}

void CpuSoftmax::dice_backward(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                               const Tensor& slopes, const Tensor& dlogits) {
  visit_compute(
      [&]<class C>(C) { backward_rows<C>(logits, Targets(targets), options, slopes.data<C>(), dlogits); },
      logits);
}

}  // namespace tandem::cpu::TANDEM_LEVEL
