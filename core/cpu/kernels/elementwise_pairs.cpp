// Ops on pairs of columns of a row: rotary positions, and SwiGLU.
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/elementwise.h"
#include "core/kernels/math.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

// Turns one head: out may be in.
template <class T>
void turn(const T* in, const T* cosine, const T* sine, T sign, Index half, bool interleaved, T* out) {
  const Index step = interleaved ? 2 : 1, apart = interleaved ? 1 : half;
#pragma omp simd
  for (Index i = 0; i < half; ++i) {
    const T a = in[i * step], b = in[i * step + apart], s = sine[i] * sign;
    out[i * step] = a * cosine[i] - b * s;
    out[i * step + apart] = b * cosine[i] + a * s;
  }
}

template <class T>
void rotate_rows(const Tensor& x, const Rotation& r, const Tensor& y) {
  const Index width = x.size(-1), rows = x.numel() / width, depth = width / r.heads;
  const T sign = r.inverse ? T(-1) : T(1);
  const Tensor buffers = workspace<T>({(width + depth) * team_size(x.numel())});
  on_team(x.numel(), [&](int thread, int threads) {
    T* const row_buffer = buffers.data<T>() + (width + depth) * thread;
    const Range range = part_of(rows, thread, threads);
    for (Index row = range.first; row < range.last; ++row) {
      const Index position =
          r.positions.defined() ? r.positions.data<std::int64_t>()[row] : r.first + row % r.steps;
      const T* const cosine = fetch(r.table, position * depth, depth, row_buffer + width);
      const T* const in = fetch(x, row * width, width, row_buffer);
      T* const out = y.dtype() == dtype_of<T>() ? y.data<T>() + row * width : row_buffer;
      for (Index head = 0; head < width; head += depth)
        turn(in + head, cosine, cosine + depth / 2, sign, depth / 2, r.interleaved, out + head);
      if (out == row_buffer) store_block(out, y.raw(), y.dtype(), row * width, width);
    }
  });
}

// Calls body(row, first column, columns) for runs of at most kBlock of the `width` columns.
template <class Body>
void over_runs(Index rows, Index width, Body&& body) {
  const Index runs = (width + kBlock - 1) / kBlock;
  parallel_for(rows * width >= kParallelElements, rows * runs, [&](Index at) {
    const Index first = at % runs * kBlock;
    body(at / runs, first, std::min(kBlock, width - first));
  });
}

template <class T>
void swiglu_rows(const Tensor& x, const Tensor& y) {
  const Index width = y.size(-1), rows = y.numel() / width;
  over_runs(rows, width, [&](Index row, Index first, Index count) {
    T gates[kBlock], values[kBlock];
    const T* const gate = fetch(x, row * 2 * width + first, count, gates);
    const T* const value = fetch(x, row * 2 * width + width + first, count, values);
#pragma omp simd
    for (Index i = 0; i < count; ++i) gates[i] = gate[i] * math::sigmoid(gate[i]) * value[i];
    store_block(gates, y.raw(), y.dtype(), row * width + first, count);
  });
}

template <class T>
void swiglu_gradient_rows(const Tensor& x, const Tensor& dy, const Tensor& dx) {
  const Index width = dy.size(-1), rows = dy.numel() / width;
  over_runs(rows, width, [&](Index row, Index first, Index count) {
    T gates[kBlock], values[kBlock], gradients[kBlock];
    const Index at = row * 2 * width + first;
    const T* const gate = fetch(x, at, count, gates);
    const T* const value = fetch(x, at + width, count, values);
    const T* const gradient = fetch(dy, row * width + first, count, gradients);
#pragma omp simd
    for (Index i = 0; i < count; ++i) {
      const T g = gate[i], s = math::sigmoid(g), d = gradient[i];
      gates[i] = d * value[i] * s * (T(1) + g * (T(1) - s));
      values[i] = d * g * s;
    }
    store_block(gates, dx.raw(), dx.dtype(), at, count);
    store_block(values, dx.raw(), dx.dtype(), at + width, count);
  });
}

}  // namespace

void CpuElementwise::rotate(const Tensor& x, const Rotation& rotation, const Tensor& y) {
  if (x.numel() == 0) return;
  visit_compute(x.dtype(), [&]<class T>(TypeTag<T>) { rotate_rows<T>(x, rotation, y); });
}

void CpuElementwise::swiglu(const Tensor& x, const Tensor& y) {
  if (y.numel() == 0) return;
  visit_compute(x.dtype(), [&]<class T>(TypeTag<T>) { swiglu_rows<T>(x, y); });
}

void CpuElementwise::swiglu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx) {
  if (dy.numel() == 0) return;
  visit_compute(promote(x.dtype(), dy.dtype()),
                [&]<class T>(TypeTag<T>) { swiglu_gradient_rows<T>(x, dy, dx); });
}

}  // namespace tandem::cpu::TANDEM_LEVEL
