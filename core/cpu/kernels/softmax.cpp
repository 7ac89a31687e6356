// Softmax and log-softmax. The last axis is processed row by row, any other axis in blocks of adjacent
// columns, so that memory is read consecutively. A NaN or an infinite maximum gives NaN in the whole row.
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/softmax_rows.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

constexpr Index kColumns = 256;  // per block of the column kernels

struct Extents {
  Index outer, extent, inner;
};

Extents extents_of(const Tensor& x, int axis) {
  return {x.shape().product(0, axis), x.shape()[axis], x.shape().product(axis + 1, x.rank())};
}

template <class C>
void softmax_rows(const Tensor& x, const Tensor& y, Index rows, Index width, bool log) {
  parallel_ranges(rows > 1 && rows * width >= kParallelExponentials, rows, [&](Range range) {
    RowReader<C> read(x, width);
    RowWriter<C> write(y, width);
    for (Index row = range.first; row < range.last; ++row) {
      const C* from = read(row);
      write(row, [&](C* to) {
        if (!log) return softmax_of(from, width, to);
        const C top = largest_of(from, width);
        const C shift = math::log(exponential_sum_of(from, width, top));
        for (Index i = 0; i < width; ++i) to[i] = (from[i] - top) - shift;
      });
    }
  });
}

template <class C>
void softmax_columns(const Tensor& x, const Tensor& y, const Extents& e, bool log) {
  const Index blocks = (e.inner + kColumns - 1) / kColumns;
  parallel_for(e.outer * e.extent * e.inner >= kParallelExponentials, e.outer, blocks,
               [&](Index o, Index block) {
                 const Index first = block * kColumns, n = std::min(kColumns, e.inner - first);
                 const Index base = o * e.extent * e.inner + first;
                 C held[kColumns], top[kColumns], sum[kColumns] = {};
                 std::fill_n(top, n, -std::numeric_limits<C>::infinity());
                 for (Index k = 0; k < e.extent; ++k) {
                   load_block(x.raw(), x.dtype(), base + k * e.inner, held, n);
                   for (Index i = 0; i < n; ++i) top[i] = held[i] > top[i] ? held[i] : top[i];
                 }
                 for (Index k = 0; k < e.extent; ++k) {
                   load_block(x.raw(), x.dtype(), base + k * e.inner, held, n);
                   for (Index i = 0; i < n; ++i) sum[i] += math::exp(held[i] - top[i]);
                 }
                 for (Index i = 0; i < n; ++i) sum[i] = log ? math::log(sum[i]) : C(1) / sum[i];
                 for (Index k = 0; k < e.extent; ++k) {
                   load_block(x.raw(), x.dtype(), base + k * e.inner, held, n);
                   if (log) {
                     for (Index i = 0; i < n; ++i) held[i] = (held[i] - top[i]) - sum[i];
                   } else {
                     for (Index i = 0; i < n; ++i) held[i] = math::exp(held[i] - top[i]) * sum[i];
                   }
                   store_block(held, y.raw(), y.dtype(), base + k * e.inner, n);
                 }
               });
}

// y is the result of forward: p for softmax, log p for log-softmax.
template <class C>
void backward_rows(const Tensor& y, const Tensor& dy, const Tensor& dx, Index rows, Index width, bool log) {
  parallel_ranges(rows > 1 && rows * width >= kParallelExponentials, rows, [&](Range range) {
    RowReader<C> read_y(y, width), read_dy(dy, width);
    RowWriter<C> write(dx, width);
    for (Index row = range.first; row < range.last; ++row) {
      const C *p = read_y(row), *g = read_dy(row);
      write(row, [&](C* to) {
        if (!log) return softmax_gradient_of(p, g, width, to);
        const C dot = sum_of<C>(width, [&](Index i) { return g[i]; });
        for (Index i = 0; i < width; ++i) to[i] = g[i] - math::exp(p[i]) * dot;
      });
    }
  });
}

template <class C>
void backward_columns(const Tensor& y, const Tensor& dy, const Tensor& dx, const Extents& e, bool log) {
  const Index blocks = (e.inner + kColumns - 1) / kColumns;
  parallel_for(e.outer * e.extent * e.inner >= kParallelExponentials, e.outer, blocks,
               [&](Index o, Index block) {
                 const Index first = block * kColumns, n = std::min(kColumns, e.inner - first);
                 const Index base = o * e.extent * e.inner + first;
                 C p[kColumns], g[kColumns], dot[kColumns] = {};
                 for (Index k = 0; k < e.extent; ++k) {
                   load_block(y.raw(), y.dtype(), base + k * e.inner, p, n);
                   load_block(dy.raw(), dy.dtype(), base + k * e.inner, g, n);
                   for (Index i = 0; i < n; ++i) dot[i] += log ? g[i] : g[i] * p[i];
                 }
                 for (Index k = 0; k < e.extent; ++k) {
                   load_block(y.raw(), y.dtype(), base + k * e.inner, p, n);
                   load_block(dy.raw(), dy.dtype(), base + k * e.inner, g, n);
                   if (log) {
                     for (Index i = 0; i < n; ++i) g[i] -= math::exp(p[i]) * dot[i];
                   } else {
                     for (Index i = 0; i < n; ++i) g[i] = p[i] * (g[i] - dot[i]);
                   }
                   store_block(g, dx.raw(), dx.dtype(), base + k * e.inner, n);
                 }
               });
}

}  // namespace

void CpuSoftmax::softmax(const Tensor& x, int axis, bool log, const Tensor& y) {
  if (x.numel() == 0) return;
  const Extents e = extents_of(x, axis);
  visit_compute(
      [&]<class C>(C) {
        if (e.inner == 1) return softmax_rows<C>(x, y, e.outer, e.extent, log);
        softmax_columns<C>(x, y, e, log);
      },
      x, y);
}

void CpuSoftmax::softmax_backward(const Tensor& y, const Tensor& dy, int axis, bool log, const Tensor& dx) {
  if (y.numel() == 0) return;
  const Extents e = extents_of(y, axis);
  visit_compute(
      [&]<class C>(C) {
        if (e.inner == 1) return backward_rows<C>(y, dy, dx, e.outer, e.extent, log);
        backward_columns<C>(y, dy, dx, e, log);
      },
      y, dy, dx);
}

SoftmaxKernels& CpuBackend::softmax() { return instance<CpuSoftmax>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
