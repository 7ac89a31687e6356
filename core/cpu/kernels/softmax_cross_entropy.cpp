// Cross entropy of logits and class indices, fused with softmax. With class weights w, their sum W, label
// smoothing ε, C classes and target t, the loss of a row is that of PyTorch's cross_entropy:
//   (1-ε)·w[t]·(lse - x[t]) + ε/C · Σ_c w[c]·(lse - x[c]).
// 16-bit logits are widened on load, or in parts of kBlock, without an f32 copy of all logits. Rows of at
// most kSumLanes classes (typical for pixel classification) are processed kLanes at a time; every sum has the
// same order, and so the same bits, as for a single row.
#include <optional>

#include "core/cpu/kernels/softmax_rows.h"
#include "core/error.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

template <class C>
struct Weights {
  std::vector<C> each;  // empty: all 1
  C sum;

  Weights(const Tensor& weights, Index classes) : sum(static_cast<C>(classes)) {
    if (!weights.defined()) return;
    each.resize(static_cast<std::size_t>(classes));
    load_block(weights.raw(), weights.dtype(), 0, each.data(), classes);
    sum = sum_of<C>(classes, [&](Index c) { return each[static_cast<std::size_t>(c)]; });
  }
  C operator[](Index c) const { return each.empty() ? C(1) : each[static_cast<std::size_t>(c)]; }
};

// Loss options, common to both passes.
template <class C>
struct Loss {
  const Targets& targets;
  const Weights<C>& weights;
  const CrossEntropyOptions& options;
  Index rows, classes;
  C smoothing, spread;

  Loss(const Tensor& logits, const Targets& t, const Weights<C>& w, const CrossEntropyOptions& o)
      : targets(t),
        weights(w),
        options(o),
        rows(logits.shape()[0]),
        classes(logits.shape()[1]),
        smoothing(static_cast<C>(o.label_smoothing)),
        spread(smoothing / static_cast<C>(classes)) {}

  bool is_parallel() const { return rows > 1 && rows * classes >= kParallelElements / 4; }
  bool is_narrow() const { return classes <= kSumLanes; }
  bool is_bad(Index target) const { return target < 0 || target >= classes; }
  bool counts(Index target) const { return target != options.ignore_index && !is_bad(target); }
  // Result of a row whose target is ignored (0) or out of range (NaN).
  C uncounted(Index target) const {
    return target == options.ignore_index ? C(0) : std::numeric_limits<C>::quiet_NaN();
  }
};

template <class C>
struct Results {
  C *loss, *row_weight, *lse;

  void fill(Index row, C value) const { loss[row] = row_weight[row] = lse[row] = value; }
};

// Terms of a row's loss.
template <class C>
struct RowParts {
  C top, log_sum;  // largest logit, and log Σ exp(x - top)
  C on_target;     // logit of the target
  C rest;          // Σ w·(lse - x), for label smoothing
};

template <class C>
void finish_row(const Loss<C>& l, Index row, Index target, const RowParts<C>& parts,
                const Results<C>& results) {
  const C weight = l.weights[target];
  // top - x + log_sum is more accurate than lse - x for large logits.
  C total = (C(1) - l.smoothing) * weight * (parts.top - parts.on_target + parts.log_sum);
  if (l.smoothing > C(0)) total += l.spread * parts.rest;
  results.loss[row] = total;
  results.row_weight[row] = weight;
  results.lse[row] = parts.top + parts.log_sum;
}

// Logarithms of kLanes short rows are computed together; one at a time they would take as long as the
// exponentials. Long rows are processed alone, so that they stay cached for label smoothing.
template <class S, class C>
void forward_rows(const Tensor& logits, const Loss<C>& l, const Results<C>& results) {
  constexpr Index kShort = 512;  // classes
  const Index together = l.classes <= kShort ? kLanes : 1;
  parallel_ranges(l.is_parallel(), (l.rows + together - 1) / together, [&](Range range) {
    std::optional<RowReader<C>> read;  // reads the logits again for label smoothing
    if (l.smoothing > C(0)) read.emplace(logits, l.classes);
    alignas(64) C top[kLanes], sum[kLanes], log_sum[kLanes], on_target[kLanes];
    std::fill_n(sum, kLanes, C(1));
    for (Index run = range.first; run < range.last; ++run) {
      const Index first = run * together, count = std::min(together, l.rows - first);
      for (Index r = 0; r < count; ++r) {
        const Index target = l.targets[first + r];
        if (!l.counts(target)) continue;
        const S* from = logits.data<S>() + (first + r) * l.classes;
        top[r] = largest_of(from, l.classes);
        sum[r] = exponential_sum_of(from, l.classes, top[r]);
        on_target[r] = convert<C>(from[target]);
      }
      for (int r = 0; r < kLanes; ++r) log_sum[r] = math::log(sum[r]);
      for (Index r = 0; r < count; ++r) {
        const Index target = l.targets[first + r];
        if (!l.counts(target)) {
          results.fill(first + r, l.uncounted(target));
          continue;
        }
        C rest = 0;
        if (read) {
          const C* from = (*read)(first + r);
          const auto below = [&](Index c) { return top[r] - from[c] + log_sum[r]; };
          rest = l.weights.each.empty()
                     ? sum_of<C>(l.classes, below)
                     : sum_of<C>(l.classes, [&](Index c) { return l.weights[c] * below(c); });
        }
        finish_row(l, first + r, target, {top[r], log_sum[r], on_target[r], rest}, results);
      }
    }
  });
}

// Column sums of terms [kSumLanes][kLanes], of which `count` rows are valid, folded in the order of LaneSums.
template <class C>
void fold_columns(C (*terms)[kLanes], Index count, C* sums) {
  for (int width = kSumLanes / 2; width > 0; width /= 2) {
    for (Index i = 0; i < width && i + width < count; ++i) {
      for (int r = 0; r < kLanes; ++r) terms[i][r] += terms[i + width][r];
    }
  }
  std::copy_n(terms[0], kLanes, sums);
}

template <class C>
void forward_narrow_rows(const Tensor& logits, const Loss<C>& l, const Results<C>& results) {
  parallel_ranges(l.is_parallel(), (l.rows + kLanes - 1) / kLanes, [&](Range range) {
    RowBlock<C> x(l.classes);
    alignas(64) C terms[kSumLanes][kLanes], top[kLanes], sum[kLanes], log_sum[kLanes], rest[kLanes] = {};
    for (Index run = range.first; run < range.last; ++run) {
      const Index first = run * kLanes, count = std::min<Index>(kLanes, l.rows - first);
      x.load(logits, first, count);
      std::fill_n(top, kLanes, -std::numeric_limits<C>::infinity());
      for (Index c = 0; c < l.classes; ++c) {
        const C* from = x.column(c);
        for (int r = 0; r < kLanes; ++r) top[r] = from[r] > top[r] ? from[r] : top[r];
      }
      for (Index c = 0; c < l.classes; ++c) {
        const C* from = x.column(c);
        for (int r = 0; r < kLanes; ++r) terms[c][r] = math::exp(from[r] - top[r]);
      }
      fold_columns(terms, l.classes, sum);
      for (int r = 0; r < kLanes; ++r) log_sum[r] = math::log(sum[r]);
      if (l.smoothing > C(0)) {
        for (Index c = 0; c < l.classes; ++c) {
          const C *from = x.column(c), weight = l.weights[c];
          for (int r = 0; r < kLanes; ++r) terms[c][r] = weight * (top[r] - from[r] + log_sum[r]);
        }
        fold_columns(terms, l.classes, rest);
      }
      for (Index r = 0; r < count; ++r) {
        const Index target = l.targets[first + r];
        if (!l.counts(target)) {
          results.fill(first + r, l.uncounted(target));
          continue;
        }
        finish_row(l, first + r, target, {top[r], log_sum[r], x.column(target)[r], rest[r]}, results);
      }
    }
  });
}

// Terms of a row's gradient: factor·exp(x - lse) - on_all·w, minus on_target at the target.
template <class C>
struct RowSlopes {
  C on_target, on_all, factor;

  RowSlopes(const Loss<C>& l, Index target, C dloss)
      : on_target(dloss * (C(1) - l.smoothing) * l.weights[target]),
        on_all(dloss * l.spread),
        factor(on_target + on_all * l.weights.sum) {}
};

// Detection with negative mining and padded text have many rows without gradient, which are cleared together.
template <class C>
void backward_rows(const Tensor& logits, const Loss<C>& l, const C* lse, const C* dloss,
                   const Tensor& dlogits) {
  const auto is_silent = [&](Index row) {
    const Index target = l.targets[row];
    return l.counts(target) ? dloss[row] == C(0) : target == l.options.ignore_index;
  };
  parallel_ranges(l.is_parallel(), l.rows, [&](Range mine) {
    RowReader<C> read(logits, l.classes);
    RowWriter<C> write(dlogits, l.classes);
    for (Index row = mine.first; row < mine.last; ++row) {
      const Index first = row;
      while (row < mine.last && is_silent(row)) ++row;
      write.clear(first, row - first);
      if (row == mine.last) break;
      const Index target = l.targets[row];
      if (l.is_bad(target)) {
        write(row, [&](C* to) { std::fill_n(to, l.classes, l.uncounted(target)); });
        continue;
      }
      const RowSlopes<C> s(l, target, dloss[row]);
      const C shift = lse[row];
      for (Index c = 0; c < l.classes; c += kBlock) {
        const Range part{c, std::min(c + kBlock, l.classes)};
        const C* from = read(row, part);
        write(row, part, [&](C* to) {
          const Index count = part.count();
          if (l.weights.each.empty() || s.on_all == C(0)) {
            for (Index i = 0; i < count; ++i) to[i] = s.factor * math::exp(from[i] - shift) - s.on_all;
          } else {
            const C* w = l.weights.each.data() + c;
            for (Index i = 0; i < count; ++i) to[i] = s.factor * math::exp(from[i] - shift) - s.on_all * w[i];
          }
          if (c <= target && target < part.last) to[target - c] -= s.on_target;
        });
      }
    }
  });
}

template <class C>
void backward_narrow_rows(const Tensor& logits, const Loss<C>& l, const C* lse, const C* dloss,
                          const Tensor& dlogits) {
  parallel_ranges(l.is_parallel(), (l.rows + kLanes - 1) / kLanes, [&](Range range) {
    RowBlock<C> x(l.classes);
    alignas(64) C factor[kLanes], on_all[kLanes], shift[kLanes];
    for (Index run = range.first; run < range.last; ++run) {
      const Index first = run * kLanes, count = std::min<Index>(kLanes, l.rows - first);
      x.load(logits, first, count);
      std::fill_n(factor, kLanes, C(0));
      std::fill_n(on_all, kLanes, C(0));
      std::fill_n(shift, kLanes, C(0));
      for (Index r = 0; r < count; ++r) {
        const Index target = l.targets[first + r];
        if (!l.counts(target)) continue;
        const RowSlopes<C> s(l, target, dloss[first + r]);
        factor[r] = s.factor;
        on_all[r] = s.on_all;
        shift[r] = lse[first + r];
      }
      for (Index c = 0; c < l.classes; ++c) {
        C* of = x.column(c);
        const C weight = l.weights[c];
        for (int r = 0; r < kLanes; ++r) of[r] = factor[r] * math::exp(of[r] - shift[r]) - on_all[r] * weight;
      }
      for (Index r = 0; r < count; ++r) {
        const Index target = l.targets[first + r];
        if (l.counts(target)) {
          x.column(target)[r] -= RowSlopes<C>(l, target, dloss[first + r]).on_target;
          continue;
        }
        for (Index c = 0; c < l.classes; ++c) x.column(c)[r] = l.uncounted(target);
      }
      x.store(dlogits, first, count);
    }
  });
}

}  // namespace

void CpuSoftmax::cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& class_weights,
                               const CrossEntropyOptions& options, const Tensor& loss,
                               const Tensor& row_weight, const Tensor& lse) {
  visit_floating(logits.dtype(), [&]<class S>(TypeTag<S>) {
    using C = ComputeType<S>;
    const Weights<C> weights(class_weights, logits.shape()[1]);
    const Targets classes(targets);
    const Loss<C> l(logits, classes, weights, options);
    const Results<C> results{loss.data<C>(), row_weight.data<C>(), lse.data<C>()};
    l.is_narrow() ? forward_narrow_rows(logits, l, results) : forward_rows<S>(logits, l, results);
  });
}

void CpuSoftmax::cross_entropy_backward(const Tensor& logits, const Tensor& targets,
                                        const Tensor& class_weights, const CrossEntropyOptions& options,
                                        const Tensor& lse, const Tensor& dloss, const Tensor& dlogits) {
  visit_compute(
      [&]<class C>(C) {
        const Weights<C> weights(class_weights, logits.shape()[1]);
        const Targets classes(targets);
        const Loss<C> l(logits, classes, weights, options);
        l.is_narrow() ? backward_narrow_rows(logits, l, lse.data<C>(), dloss.data<C>(), dlogits)
                      : backward_rows(logits, l, lse.data<C>(), dloss.data<C>(), dlogits);
      },
      logits);
}

}  // namespace tandem::cpu::TANDEM_LEVEL
