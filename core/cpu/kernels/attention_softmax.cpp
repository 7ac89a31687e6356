// Masked softmax over the keys of each query, with the row kernels of softmax_rows.h.
#include "core/cpu/kernels/attention.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/softmax_rows.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

// Rows of scores [N,…,Tq,Tk]; in scores [Tk] or [N,Tk] each row is one query.
struct ScoreRows {
  Index rows, per_sequence, queries, keys;

  explicit ScoreRows(const Tensor& x)
      : rows(x.shape().product(0, x.rank() - 1)),
        per_sequence(x.rank() > 1 ? x.shape().product(1, x.rank() - 1) : 1),
        queries(x.rank() > 1 ? x.size(-2) : 1),
        keys(x.size(-1)) {}

  KeyRange seen(const AttentionMask& mask, Index row) const {
    return seen_keys(mask, row / per_sequence, row % queries, queries, keys);
  }
};

template <class C>
void forward_rows(const Tensor& x, const AttentionMask& mask, const Tensor& y) {
  const ScoreRows s(x);
  parallel_ranges(s.rows > 1 && s.rows * s.keys >= kParallelExponentials, s.rows, [&](Range range) {
    RowReader<C> read(x, s.keys);
    RowWriter<C> write(y, s.keys);
    for (Index row = range.first; row < range.last; ++row) {
      const KeyRange seen = s.seen(mask, row);
      const C* from = read(row);
      write(row, [&](C* to) {
        std::fill(to, to + seen.first, C(0));
        softmax_of(from + seen.first, seen.count(), to + seen.first);
        std::fill(to + seen.last, to + s.keys, C(0));
      });
    }
  });
}

template <class C>
void backward_rows(const Tensor& y, const Tensor& dy, const AttentionMask& mask, const Tensor& dx) {
  const ScoreRows s(y);
  parallel_ranges(s.rows > 1 && s.rows * s.keys >= kParallelExponentials, s.rows, [&](Range range) {
    RowReader<C> read_y(y, s.keys), read_dy(dy, s.keys);
    RowWriter<C> write(dx, s.keys);
    for (Index row = range.first; row < range.last; ++row) {
      const KeyRange seen = s.seen(mask, row);
      const C *p = read_y(row) + seen.first, *g = read_dy(row) + seen.first;
      write(row, [&](C* to) {
        std::fill(to, to + seen.first, C(0));
        softmax_gradient_of(p, g, seen.count(), to + seen.first);
        std::fill(to + seen.last, to + s.keys, C(0));
      });
    }
  });
}

}  // namespace

void CpuAttention::masked_softmax(const Tensor& x, const AttentionMask& mask, const Tensor& y) {
  if (x.numel() == 0) return;
  visit_compute([&]<class C>(C) { forward_rows<C>(x, mask, y); }, x, y);
}

void CpuAttention::masked_softmax_backward(const Tensor& y, const Tensor& dy, const AttentionMask& mask,
                                           const Tensor& dx) {
  if (y.numel() == 0) return;
  visit_compute([&]<class C>(C) { backward_rows<C>(y, dy, mask, dx); }, y, dy, dx);
}

AttentionKernels& CpuBackend::attention() { return instance<CpuAttention>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
