// Softmax and log-softmax, forward and backward.
//
// Along the last axis, a group of lanes or a block has a whole row in registers, so that memory is read and
// written once. Longer rows, other axes, f64 and mixed types use the strided kernels, which read twice (the
// second time mostly from cache); their first pass computes maximum and sum of exponentials together. A NaN
// or an infinite maximum gives NaN in the whole row.
#include <cuda_runtime.h>

#include <limits>
#include <type_traits>
#include <utility>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/rows.h"
#include "core/cuda/softmax.h"
#include "core/error.h"
#include "core/kernels/math.h"

namespace tandem::cuda {

namespace {

// ---- Rows in registers

constexpr int kForwardThreads = 1024, kBackwardThreads = 512;  // for the longest rows

// Layout of a row of `width` elements in a group's registers: `held` elements per thread.
struct Layout {
  int held = 0;  // 0: too long
  int group = 1;

  int threads() const { return group <= kWarp ? kThreads : group; }
  Index blocks(Index rows) const { return ceil_div(rows, threads() / group); }
};

Layout layout_of(Index width, int pack, int most_threads) {
  const Index packs = ceil_div(width, pack);
  for (const int held : {8, 16, 32}) {
    if (packs * pack <= Index{held} * kWarp)
      return {held, power_of_two_for(ceil_div(packs, held / pack), kWarp)};
  }
  for (const auto& [held, most] : {std::pair{16, 512}, std::pair{32, most_threads}}) {
    const Index threads = ceil_div(ceil_div(packs, held / pack), kWarp) * kWarp;
    if (threads <= most) return {held, static_cast<int>(threads)};
  }
  return {};
}

// The elements of a row in one thread: packs lane, lane + group, …
template <class S, int kWidth, int kHeld>
struct RowSlice {
  using C = ComputeType<S>;
  using Values = Pack<S, kWidth>;
  static constexpr int kPacks = kHeld / kWidth;

  int lane, group, packs;

  __device__ __forceinline__ bool has(int k) const { return k * group + lane < packs; }

  // Elements beyond the row are set to `outside`.
  __device__ __forceinline__ void read(const S* row, C outside, C* held) const {
    Values values[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (has(k)) values[k] = reinterpret_cast<const Values*>(row)[k * group + lane];
    }
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
#pragma unroll
      for (int v = 0; v < kWidth; ++v) held[k * kWidth + v] = has(k) ? load(&values[k].value[v]) : outside;
    }
  }
  __device__ __forceinline__ void write(const C* held, S* row) const {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      Values values;
#pragma unroll
      for (int v = 0; v < kWidth; ++v) store(&values.value[v], held[k * kWidth + v]);
      if (has(k)) reinterpret_cast<Values*>(row)[k * group + lane] = values;
    }
  }
};

template <class S, int kWidth, int kHeld>
__global__ void __launch_bounds__(kHeld < 32 ? 512 : kForwardThreads)
    softmax_kernel(const S* x, S* y, Index rows, int width, int group, bool log) {
  await_earlier_work();
  using C = ComputeType<S>;
  __shared__ C shared[kWarp];
  const Index row = Index{blockIdx.x} * (blockDim.x / group) + threadIdx.x / group;
  const RowSlice<S, kWidth, kHeld> slice{static_cast<int>(threadIdx.x) % group, group,
                                         row < rows ? width / kWidth : 0};
  C held[kHeld];
  slice.read(x + row * width, -std::numeric_limits<C>::infinity(), held);
  C top = -std::numeric_limits<C>::infinity();
#pragma unroll
  for (int i = 0; i < kHeld; ++i) top = Larger{}(top, held[i]);
  top = group_reduce_all(top, group, shared, Larger{});
  C sum = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    held[i] -= top;
    const C e = exp_for<S>(held[i]);
    sum += e;
    if (!log) held[i] = e;
  }
  sum = group_reduce_all(sum, group, shared, Sum{});
  const C shift = math::log(sum), factor = C(1) / sum;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) held[i] = log ? held[i] - shift : held[i] * factor;
  slice.write(held, y + row * width);
}

// y is the result of forward. dx may be dy.
template <class S, int kWidth, int kHeld>
__global__ void __launch_bounds__(kBackwardThreads)
    softmax_backward_kernel(const S* y, const S* dy, S* dx, Index rows, int width, int group, bool log) {
  await_earlier_work();
  using C = ComputeType<S>;
  __shared__ C shared[kWarp];
  const Index row = Index{blockIdx.x} * (blockDim.x / group) + threadIdx.x / group;
  const RowSlice<S, kWidth, kHeld> slice{static_cast<int>(threadIdx.x) % group, group,
                                         row < rows ? width / kWidth : 0};
  C p[kHeld], g[kHeld];
  slice.read(y + row * width, C(0), p);
  slice.read(dy + row * width, C(0), g);
  C dot = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) dot += log ? g[i] : g[i] * p[i];
  dot = group_reduce_all(dot, group, shared, Sum{});
#pragma unroll
  for (int i = 0; i < kHeld; ++i) g[i] = log ? g[i] - exp_for<S>(p[i]) * dot : p[i] * (g[i] - dot);
  slice.write(g, dx + row * width);
}

// ---- Any axis

// Vectors of `extent` elements, `inner` apart. `columns` adjacent threads have one each, split over the
// block's rows.
struct Strided {
  Index outer, extent, inner;
  int columns = 1, rows = 1;

  Index vectors() const { return outer * inner; }
  Index blocks() const { return ceil_div(vectors(), columns); }
  int threads() const { return columns * rows; }

  __device__ __forceinline__ Index vector() const {
    return Index{blockIdx.x} * columns + static_cast<int>(threadIdx.x) % columns;
  }
  // Offset of the first element of a vector.
  __device__ __forceinline__ Index base(Index vector) const {
    const Index group = vector / inner;
    return group * extent * inner + (vector - group * inner);
  }
};

Strided strided_of(const Tensor& x, int axis) {
  Strided s{x.shape().product(0, axis), x.shape()[axis], x.shape().product(axis + 1, x.rank())};
  if (s.inner == 1) {
    s.rows = power_of_two_for(ceil_div(s.extent, 4), kThreads);
    s.columns = kThreads / s.rows;
  } else {
    const bool shared = s.extent >= 64 || (s.extent >= 8 && s.vectors() < kProcessors * kThreads);
    s.columns = power_of_two_for(s.vectors(), shared ? kWarp : kThreads);
    s.rows = power_of_two_for(s.extent, kThreads / s.columns);
  }
  ensure(ceil_div(s.vectors(), s.columns) <= 0x7fffffff, "softmax", "{} needs too many blocks", to_string(x));
  return s;
}

// Calls visit(offset, fetch(offset)) for a thread's elements of a vector. Several elements are fetched before
// the first visit, which may overwrite them.
template <int kBatch, class Fetch, class Visit>
__device__ __forceinline__ void over_elements(const Strided& s, Index base, const Fetch& fetch,
                                              const Visit& visit) {
  const int row = static_cast<int>(threadIdx.x) / s.columns;
  const Index step = Index{s.rows} * s.inner;
  Index left = s.extent > row ? (s.extent - row + s.rows - 1) / s.rows : 0, at = base + row * s.inner;
  for (; left >= kBatch; left -= kBatch) {
    decltype(fetch(at)) values[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) values[b] = fetch(at + b * step);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) visit(at + b * step, values[b]);
    at += kBatch * step;
  }
  for (; left > 0; --left, at += step) visit(at, fetch(at));
}

// Reads of any type take so many instructions that fewer in flight suffice.
template <class Elements>
constexpr int kBatch = Elements::kWidth > 1 ? 8 : 2;

// Reduction over the rows of the block; every thread gets the result of its column.
template <class State, class Combine>
__device__ __forceinline__ State over_rows(State state, const Strided& s, State* shared,
                                           const Combine& combine) {
  column_reduce<1>(&state, s.columns, shared, combine);
  if (s.rows == 1) return state;
  __syncthreads();
  return shared[static_cast<int>(threadIdx.x) % s.columns];
}

template <class Elements>
__global__ void __launch_bounds__(kThreads) softmax_strided(Elements x, Elements y, Strided s, bool log) {
  await_earlier_work();
  using C = typename Elements::Element;
  __shared__ ExpSum<C> shared[kThreads];
  const Index vector = s.vector(), base = s.base(vector);
  const bool valid = vector < s.outer * s.inner;
  ExpSum<C> held = ExpSum<C>::none();
  const auto fetch = [&](Index at) { return x.at(at); };
  if (valid) over_elements<kBatch<Elements>>(s, base, fetch, [&](Index, C value) { held.add(value); });
  held = over_rows(held, s, shared, JoinSums{});
  if (!valid) return;
  const C top = held.top;
  C scale = log ? math::log(held.sum) : C(1) / held.sum;
  if (top - top != C(0)) scale = std::numeric_limits<C>::quiet_NaN();  // infinite maximum
  over_elements<kBatch<Elements>>(s, base, fetch, [&](Index at, C value) {
    const C shifted = value - top;
    y.put(at, log ? shifted - scale : math::exp(shifted) * scale);
  });
}

// dx may be dy, because each thread reads only the elements that it writes.
template <class Elements>
__global__ void __launch_bounds__(kThreads)
    softmax_backward_strided(Elements y, Elements dy, Elements dx, Strided s, bool log) {
  await_earlier_work();
  using C = typename Elements::Element;
  __shared__ C shared[kThreads];
  const Index vector = s.vector(), base = s.base(vector);
  const bool valid = vector < s.outer * s.inner;
  struct Both {
    C p, g;
  };
  const auto fetch = [&](Index at) { return Both{y.at(at), dy.at(at)}; };
  C dot = 0;
  if (valid)
    over_elements<kBatch<Elements>>(s, base, fetch, [&](Index, Both v) { dot += log ? v.g : v.g * v.p; });
  dot = over_rows(dot, s, shared, Sum{});
  if (!valid) return;
  over_elements<kBatch<Elements>>(s, base, fetch, [&](Index at, Both v) {
    dx.put(at, log ? v.g - math::exp(v.p) * dot : v.p * (v.g - dot));
  });
}

// ---- Choosing

template <class... Tensors>
bool all_of_type(DType dtype, const Tensors&... tensors) {
  return ((tensors.dtype() == dtype) && ...);
}

// Calls visit(std::integral_constant<int, held>{}).
template <class Visitor>
void visit_held(int held, const Visitor& visit) {
  if (held == 8) return visit(std::integral_constant<int, 8>{});
  if (held == 16) return visit(std::integral_constant<int, 16>{});
  visit(std::integral_constant<int, 32>{});
}

// Calls visit(TypeTag<S>{}) if all tensors are f32, all f16, or all bf16; returns false otherwise.
template <class Visitor, class... Tensors>
bool visit_common(const Visitor& visit, const Tensor& x, const Tensors&... others) {
  if (x.dtype() == DType::f64 || !all_of_type(x.dtype(), others...)) return false;
  visit_below_f64(x.dtype(), visit);
  return true;
}

template <class S>
Typed<S> typed(const Tensor& x) {
  return {x.data<S>()};
}

}  // namespace

void CudaSoftmax::softmax(const Tensor& x, int axis, bool log, const Tensor& y) {
  if (x.numel() == 0) return;
  const Strided s = strided_of(x, axis);
  const auto strided = [&](const auto& from, const auto& to) {
    using Elements = std::remove_cvref_t<decltype(from)>;
    launch_early("softmax", softmax_strided<Elements>, s.blocks(), s.threads(), backend.stream(), from, to, s,
                 log);
  };
  const auto run = [&]<class S>(TypeTag<S>) {
    constexpr int kPack = Pack<S>::kSize;
    const bool packed = s.extent % kPack == 0 && is_aligned(x.raw()) && is_aligned(y.raw());
    const Layout layout = layout_of(s.extent, packed ? kPack : 1, kForwardThreads);
    if (s.inner != 1 || layout.held == 0) return strided(typed<S>(x), typed<S>(y));
    visit_held(layout.held, [&]<int kHeld>(std::integral_constant<int, kHeld>) {
      launch_early("softmax", packed ? softmax_kernel<S, kPack, kHeld> : softmax_kernel<S, 1, kHeld>,
                   layout.blocks(s.outer), layout.threads(), backend.stream(), x.data<S>(), y.data<S>(),
                   s.outer, static_cast<int>(s.extent), layout.group, log);
    });
  };
  if (visit_common(run, x, y)) return;
  if (x.dtype() == DType::f64 || y.dtype() == DType::f64)
    return strided(any_of<double>(x), any_of<double>(y));
  strided(any_of<float>(x), any_of<float>(y));
}

void CudaSoftmax::softmax_backward(const Tensor& y, const Tensor& dy, int axis, bool log, const Tensor& dx) {
  if (y.numel() == 0) return;
  const Strided s = strided_of(y, axis);
  const auto strided = [&](const auto& from, const auto& gradient, const auto& to) {
    using Elements = std::remove_cvref_t<decltype(from)>;
    launch_early("softmax_backward", softmax_backward_strided<Elements>, s.blocks(), s.threads(),
                 backend.stream(), from, gradient, to, s, log);
  };
  const auto run = [&]<class S>(TypeTag<S>) {
    constexpr int kPack = Pack<S>::kSize;
    const bool packed =
        s.extent % kPack == 0 && is_aligned(y.raw()) && is_aligned(dy.raw()) && is_aligned(dx.raw());
    const Layout layout = layout_of(s.extent, packed ? kPack : 1, kBackwardThreads);
    if (s.inner != 1 || layout.held == 0) return strided(typed<S>(y), typed<S>(dy), typed<S>(dx));
    visit_held(layout.held, [&]<int kHeld>(std::integral_constant<int, kHeld>) {
      launch_early("softmax_backward",
                   packed ? softmax_backward_kernel<S, kPack, kHeld> : softmax_backward_kernel<S, 1, kHeld>,
                   layout.blocks(s.outer), layout.threads(), backend.stream(), y.data<S>(), dy.data<S>(),
                   dx.data<S>(), s.outer, static_cast<int>(s.extent), layout.group, log);
    });
  };
  if (visit_common(run, y, dy, dx)) return;
  if (y.dtype() == DType::f64 || dy.dtype() == DType::f64 || dx.dtype() == DType::f64)
    return strided(any_of<double>(y), any_of<double>(dy), any_of<double>(dx));
  strided(any_of<float>(y), any_of<float>(dy), any_of<float>(dx));
}

SoftmaxKernels& CudaBackend::softmax() { return own<CudaSoftmax>(kernels_.softmax); }

}  // namespace tandem::cuda
