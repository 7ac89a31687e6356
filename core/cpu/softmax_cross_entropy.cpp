// Cross entropy of logits against classes, fused with its softmax. With w the class weights, W their sum, ε
// the label smoothing, C the number of classes and t the target, a row's loss is (the formulas of PyTorch's
// cross_entropy)
//   (1-ε)·w[t]·(lse - x[t]) + ε/C · Σ_c w[c]·(lse - x[c]).
// 16-bit logits are widened row by row; no copy of all logits in f32 exists.
#include "core/cpu/cpu_backend.h"
#include "core/cpu/softmax_rows.h"
#include "core/error.h"

namespace tandem::cpu {

namespace {

template <class C>
struct Weights {
  std::vector<C> each;  // empty: all one
  C sum;

  Weights(const Tensor& weights, Index classes) : sum(static_cast<C>(classes)) {
    if (!weights.defined()) return;
    each.resize(static_cast<std::size_t>(classes));
    load_block(weights.raw(), weights.dtype(), 0, each.data(), classes);
    sum = sum_of<C>(classes, [&](Index c) { return each[static_cast<std::size_t>(c)]; });
  }
  C operator[](Index c) const { return each.empty() ? C(1) : each[static_cast<std::size_t>(c)]; }
};

// The targets as i64, whichever integer type they have.
class Targets {
 public:
  explicit Targets(const Tensor& targets) : dtype_(targets.dtype()), data_(targets.raw()) {
    ensure(dtype_ == DType::i64 || dtype_ == DType::i32 || dtype_ == DType::u8, "cross_entropy",
           "targets are {}", name_of(dtype_));
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

template <class C>
void forward_rows(const Tensor& logits, const Targets& targets, const Weights<C>& weights,
                  const CrossEntropyOptions& options, C* loss, C* row_weight, C* lse) {
  const Index rows = logits.shape()[0], classes = logits.shape()[1];
  const C smoothing = static_cast<C>(options.label_smoothing), spread = smoothing / static_cast<C>(classes);
#pragma omp parallel if (rows > 1 && rows * classes >= kParallelElements / 4)
  {
    RowReader<C> read(logits, classes);
#pragma omp for schedule(static)
    for (Index row = 0; row < rows; ++row) {
      const Index target = targets[row];
      if (target == options.ignore_index) {
        loss[row] = row_weight[row] = lse[row] = C(0);
        continue;
      }
      if (target < 0 || target >= classes) {
        loss[row] = row_weight[row] = lse[row] = std::numeric_limits<C>::quiet_NaN();
        continue;
      }
      const C* from = read(row);
      const C top = largest_of(from, classes);
      const C log_sum = math::log(sum_of<C>(classes, [&](Index c) { return math::exp(from[c] - top); }));
      const C weight = weights[target];
      // top - x + log_sum keeps the digits that lse - x would lose for large logits.
      C total = (C(1) - smoothing) * weight * (top - from[target] + log_sum);
      if (smoothing > C(0)) {
        const C rest =
            weights.each.empty()
                ? sum_of<C>(classes, [&](Index c) { return top - from[c] + log_sum; })
                : sum_of<C>(classes, [&](Index c) { return weights[c] * (top - from[c] + log_sum); });
        total += spread * rest;
      }
      loss[row] = total;
      row_weight[row] = weight;
      lse[row] = top + log_sum;
    }
  }
}

template <class C>
void backward_rows(const Tensor& logits, const Targets& targets, const Weights<C>& weights,
                   const CrossEntropyOptions& options, const C* lse, const C* dloss, const Tensor& dlogits) {
  const Index rows = logits.shape()[0], classes = logits.shape()[1];
  const C smoothing = static_cast<C>(options.label_smoothing), spread = smoothing / static_cast<C>(classes);
#pragma omp parallel if (rows > 1 && rows * classes >= kParallelElements / 4)
  {
    RowReader<C> read(logits, classes);
    RowWriter<C> write(dlogits, classes);
#pragma omp for schedule(static)
    for (Index row = 0; row < rows; ++row) {
      const Index target = targets[row];
      if (target == options.ignore_index) {
        write(row, [&](C* to) { std::fill_n(to, classes, C(0)); });
        continue;
      }
      if (target < 0 || target >= classes) {
        write(row, [&](C* to) { std::fill_n(to, classes, std::numeric_limits<C>::quiet_NaN()); });
        continue;
      }
      const C* from = read(row);
      const C on_target = dloss[row] * (C(1) - smoothing) * weights[target], on_all = dloss[row] * spread;
      const C factor = on_target + on_all * weights.sum, shift = lse[row];
      write(row, [&](C* to) {
        if (weights.each.empty() || on_all == C(0)) {
          for (Index c = 0; c < classes; ++c) to[c] = factor * math::exp(from[c] - shift) - on_all;
        } else {
          const C* w = weights.each.data();
          for (Index c = 0; c < classes; ++c) to[c] = factor * math::exp(from[c] - shift) - on_all * w[c];
        }
        to[target] -= on_target;
      });
    }
  }
}

}  // namespace

void CpuBackend::cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& class_weights,
                               const CrossEntropyOptions& options, const Tensor& loss,
                               const Tensor& row_weight, const Tensor& lse) {
  visit_compute(
      [&]<class C>(C) {
        const Weights<C> weights(class_weights, logits.shape()[1]);
        forward_rows<C>(logits, Targets(targets), weights, options, loss.data<C>(), row_weight.data<C>(),
                        lse.data<C>());
      },
      logits);
}

void CpuBackend::cross_entropy_backward(const Tensor& logits, const Tensor& targets,
                                        const Tensor& class_weights, const CrossEntropyOptions& options,
                                        const Tensor& lse, const Tensor& dloss, const Tensor& dlogits) {
  visit_compute(
      [&]<class C>(C) {
        const Weights<C> weights(class_weights, logits.shape()[1]);
        backward_rows<C>(logits, Targets(targets), weights, options, lse.data<C>(), dloss.data<C>(), dlogits);
      },
      logits);
}

}  // namespace tandem::cpu
