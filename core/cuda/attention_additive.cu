// Additive attention (core/kernels/attention.h). Forward: a block computes one query of one row, its warps
// divide the keys. Backward: score gradients by query, then everything behind the tanh twice, by query and by
// key, recomputing it each time. Sums therefore need neither atomics nor extra memory, and have a fixed
// order.
#include <cuda_runtime.h>

#include <limits>

#include "core/cuda/attention_mask.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/rows.h"
#include "core/error.h"
#include "core/kernels/attention_formulas.h"
#include "core/kernels/reduce.h"

namespace tandem::cuda {

namespace {

constexpr int kLanes = 128;  // threads along features or channels

struct Sizes {
  Index rows, features, channels;  // N, A, C
  SeenKeys seen;

  __device__ __forceinline__ Index row() const { return blockIdx.x; }  // (query or key)·N + n
  __device__ __forceinline__ Index n() const { return row() % rows; }
  __device__ __forceinline__ Index time() const { return row() / rows; }
};

// Destination of a gradient.
struct Sink {
  Slot slot;
  bool accumulate;

  template <class C>
  __device__ __forceinline__ void put(Index i, C value) const {
    if (accumulate) value += load_any<C>(slot.data, slot.dtype, i);
    store_any(slot.data, slot.dtype, i, value);
  }
};

Sink sink_of(const GradOutput& to) { return {slot_of(to.tensor), to.accumulate}; }

// ---- Direction

// u = g·v/‖v‖, or v if g is absent; figures[0] = ‖v‖, [1] = g. One block.
template <class C>
__global__ void __launch_bounds__(kThreads)
    direction_kernel(const C* v, const C* g, C* u, C* figures, Index features) {
  __shared__ C shared[kWarp];
  C norm = 1, factor = 1;
  if (g != nullptr) {
    C sum = 0;
    for (Index j = threadIdx.x; j < features; j += kThreads) sum += v[j] * v[j];
    norm = math::sqrt(block_reduce(sum, C(0), shared, Sum{}));
    factor = *g / norm;
    if (threadIdx.x == 0) figures[0] = norm, figures[1] = *g;
  }
  for (Index j = threadIdx.x; j < features; j += kThreads) u[j] = g != nullptr ? v[j] * factor : v[j];
}

// Gradients of v and g from the gradient of u. One block; sinks without memory are skipped.
template <class C>
__global__ void __launch_bounds__(kThreads)
    direction_backward_kernel(const C* v, const C* du, const C* figures, Sink dv, Sink dg, Index features) {
  __shared__ C shared[kWarp];
  C along = 0;
  for (Index j = threadIdx.x; j < features; j += kThreads) along += v[j] * du[j];
  along = block_reduce(along, C(0), shared, Sum{});
  const C norm = figures[0], g = figures[1];
  if (threadIdx.x == 0 && dg.slot.data != nullptr) dg.put(0, along / norm);
  if (dv.slot.data == nullptr) return;
  for (Index j = threadIdx.x; j < features; j += kThreads)
    dv.put(j, attention::normalised_gradient(v[j], du[j], g, norm, along));
}

// ---- Forward

// S is the storage type of sequences; `scores` [Tq,N,Tk] is workspace.
template <class S>
struct Forward {
  using C = ComputeType<S>;
  const S *query, *key, *value;
  const C *u, *b;  // b: may be null
  C* scores;
  S *context, *weights;
};

template <class S>
__global__ void __launch_bounds__(kThreads) additive_kernel(Forward<S> a, Sizes size) {
  using C = ComputeType<S>;
  __shared__ ExpSum<C> shared[kWarp];
  const Index n = size.n(), keys = size.seen.keys, seen = size.seen(n, size.time()).last;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const S* query = a.query + size.row() * size.features;
  C* scores = a.scores + size.row() * keys;
  for (Index s = warp; s < seen; s += kThreads / kWarp) {
    const S* key = a.key + (s * size.rows + n) * size.features;
    C sum = 0;
    for (Index j = lane; j < size.features; j += kWarp) {
      const C bias = a.b != nullptr ? a.b[j] : C(0);
      sum += attention::score_term(a.u[j], load(query + j) + bias + load(key + j));
    }
    sum = warp_reduce(sum, Sum{});
    if (lane == 0) scores[s] = sum;
  }
  __syncthreads();
  ExpSum<C> held = ExpSum<C>::none();
  for (Index s = threadIdx.x; s < seen; s += kThreads) held.add(scores[s]);
  held = group_reduce_all(held, kThreads, shared, JoinSums{});
  const C top = held.top;
  const C scale = top - top != C(0) ? std::numeric_limits<C>::quiet_NaN() : C(1) / held.sum;
  S* weights = a.weights + size.row() * keys;
  for (Index s = threadIdx.x; s < keys; s += kThreads)
    store(weights + s, s < seen ? math::exp(scores[s] - top) * scale : C(0));
  __syncthreads();
  for (Index c = threadIdx.x; c < size.channels; c += kThreads) {
    C sum = 0;
    for (Index s = 0; s < seen; ++s)
      sum += load(weights + s) * load(a.value + (s * size.rows + n) * size.channels + c);
    store(a.context + size.row() * size.channels + c, sum);
  }
}

// ---- Backward

template <class S>
struct Backward {
  using C = ComputeType<S>;
  const S *query, *key, *value;
  const C *u, *b;
  const S *weights, *dcontext, *dweights;  // the last two may be null
  C* dscores;                              // [Tq,N,Tk]
};

template <class S>
__global__ void __launch_bounds__(kThreads) additive_scores_backward(Backward<S> a, Sizes size) {
  using C = ComputeType<S>;
  __shared__ C shared[kWarp];
  const Index n = size.n(), keys = size.seen.keys, seen = size.seen(n, size.time()).last,
              base = size.row() * keys;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (Index s = warp; s < seen; s += kThreads / kWarp) {
    C dot = 0;
    if (a.dcontext != nullptr) {
      const S *dcontext = a.dcontext + size.row() * size.channels,
              *value = a.value + (s * size.rows + n) * size.channels;
      for (Index c = lane; c < size.channels; c += kWarp) dot += load(dcontext + c) * load(value + c);
      dot = warp_reduce(dot, Sum{});
    }
    if (lane == 0) a.dscores[base + s] = a.dweights != nullptr ? load(a.dweights + base + s) + dot : dot;
  }
  __syncthreads();
  C dot = 0;
  for (Index s = threadIdx.x; s < seen; s += kThreads)
    dot += load(a.weights + base + s) * a.dscores[base + s];
  dot = block_reduce(dot, C(0), shared, Sum{});
  for (Index s = threadIdx.x; s < seen; s += kThreads)
    a.dscores[base + s] = load(a.weights + base + s) * (a.dscores[base + s] - dot);
}

// du and db [Tq·N,A], one row per query.
template <class S>
__global__ void __launch_bounds__(kLanes)
    additive_query_backward(Backward<S> a, Sizes size, Sink dquery, ComputeType<S>* du, ComputeType<S>* db) {
  using C = ComputeType<S>;
  const Index j = Index{blockIdx.y} * kLanes + threadIdx.x, n = size.n();
  if (j >= size.features) return;
  const Index at = size.row() * size.features + j, seen = size.seen(n, size.time()).last;
  const C u = a.u[j], query = load(a.query + at) + (a.b != nullptr ? a.b[j] : C(0));
  const C* dscores = a.dscores + size.row() * size.seen.keys;
  attention::FeatureGradient<C> sum{};
  for (Index s = 0; s < seen; ++s) {
    const C key = load(a.key + (s * size.rows + n) * size.features + j);
    const auto g = attention::feature_gradient(u, query + key, dscores[s]);
    sum.sum += g.sum;
    sum.u += g.u;
  }
  du[at] = sum.u;
  db[at] = sum.sum;
  if (dquery.slot.data != nullptr) dquery.put(at, sum.sum);
}

template <class S>
__global__ void __launch_bounds__(kLanes) additive_key_backward(Backward<S> a, Sizes size, Sink dkey) {
  using C = ComputeType<S>;
  const Index j = Index{blockIdx.y} * kLanes + threadIdx.x, n = size.n(), s = size.time();
  if (j >= size.features) return;
  const Index at = size.row() * size.features + j;
  const C u = a.u[j], key = load(a.key + at), bias = a.b != nullptr ? a.b[j] : C(0);
  C sum = 0;
  for (Index t = 0; t < size.seen.queries; ++t) {
    if (s >= size.seen(n, t).last) continue;
    const Index row = t * size.rows + n;
    const C query = load(a.query + row * size.features + j) + bias;
    sum += attention::feature_gradient(u, query + key, a.dscores[row * size.seen.keys + s]).sum;
  }
  dkey.put(at, sum);
}

template <class S>
__global__ void __launch_bounds__(kLanes) additive_value_backward(Backward<S> a, Sizes size, Sink dvalue) {
  using C = ComputeType<S>;
  const Index c = Index{blockIdx.y} * kLanes + threadIdx.x, n = size.n(), s = size.time();
  if (c >= size.channels) return;
  C sum = 0;
  for (Index t = 0; t < size.seen.queries && a.dcontext != nullptr; ++t) {
    if (s >= size.seen(n, t).last) continue;
    const Index row = t * size.rows + n;
    sum += load(a.weights + row * size.seen.keys + s) * load(a.dcontext + row * size.channels + c);
  }
  dvalue.put(size.row() * size.channels + c, sum);
}

// ---- Launches

Sizes sizes_of(const AdditiveInputs& in, const SeenKeys& seen) {
  return {in.query.size(1), in.query.size(2), in.value.size(2), seen};
}

// Grid of blocks for `times` steps and `width` columns.
dim3 grid_of(Index times, const Sizes& size, Index width) {
  ensure(times * size.rows <= 0x7fffffff && ceil_div(width, kLanes) <= 65535, "additive_attention",
         "{} steps of {} rows and {} columns are too many", times, size.rows, width);
  return dim3(static_cast<unsigned>(times * size.rows), static_cast<unsigned>(ceil_div(width, kLanes)));
}

}  // namespace

void CudaAttention::additive_attention(const AdditiveForward& args) {
  if (args.weights.numel() == 0 && args.context.numel() == 0) return;
  const AdditiveInputs& in = args.in;
  const MaskOnDevice mask(backend, args.mask, in.query.size(0), in.key.size(0));
  const Sizes size = sizes_of(in, mask.seen);
  visit_floating(in.query.dtype(), [&]<class S>(TypeTag<S>) {
    using C = ComputeType<S>;
    const DType wide = dtype_of<C>();
    const Tensor u = backend.workspace({size.features}, wide), figures = backend.workspace({2}, wide);
    const Tensor scores = backend.workspace(args.weights.shape(), wide);
    launch("additive_attention", direction_kernel<C>, 1, kThreads, backend.stream(), in.v.data<C>(),
           data_or_null<C>(in.g), u.data<C>(), figures.data<C>(), size.features);
    const Forward<S> a{
        in.query.data<S>(),    in.key.data<S>(), in.value.data<S>(),     u.data<C>(),
        data_or_null<C>(in.b), scores.data<C>(), args.context.data<S>(), args.weights.data<S>()};
    launch("additive_attention", additive_kernel<S>, grid_of(size.seen.queries, size, 1), kThreads,
           backend.stream(), a, size);
  });
}

void CudaAttention::additive_attention_backward(const AdditiveBackward& args) {
  const AdditiveInputs& in = args.in;
  const MaskOnDevice mask(backend, args.mask, in.query.size(0), in.key.size(0));
  const Sizes size = sizes_of(in, mask.seen);
  const Index rows = size.seen.queries * size.rows;
  const auto wanted = [&](std::size_t i) { return args.gradients[i].tensor.defined(); };
  const auto as_stored = [&](const Tensor& t) {
    if (!t.defined() || t.dtype() == in.query.dtype()) return t;
    const Tensor copy = backend.workspace(t.shape(), in.query.dtype());
    backend.cast(t, copy, false);
    return copy;
  };
  const Tensor dcontext = as_stored(args.dcontext), dweights = as_stored(args.dweights);
  visit_floating(in.query.dtype(), [&]<class S>(TypeTag<S>) {
    using C = ComputeType<S>;
    const DType wide = dtype_of<C>();
    const auto room = [&](const Shape& shape) { return backend.workspace(shape, wide); };
    const Tensor u = room({size.features}), figures = room({2}), dscores = room(args.weights.shape());
    launch("additive_attention_backward", direction_kernel<C>, 1, kThreads, backend.stream(), in.v.data<C>(),
           data_or_null<C>(in.g), u.data<C>(), figures.data<C>(), size.features);
    const Backward<S> a{
        in.query.data<S>(),    in.key.data<S>(),       in.value.data<S>(),        u.data<C>(),
        data_or_null<C>(in.b), args.weights.data<S>(), data_or_null<S>(dcontext), data_or_null<S>(dweights),
        dscores.data<C>()};
    if (wanted(2) && in.value.numel() > 0) {
      launch("additive_attention_backward", additive_value_backward<S>,
             grid_of(size.seen.keys, size, size.channels), kLanes, backend.stream(), a, size,
             sink_of(args.gradients[2]));
    }
    const bool parameters = wanted(3) || wanted(4) || wanted(5);
    if (!wanted(0) && !wanted(1) && !parameters) return;
    if (rows > 0) {
      launch("additive_attention_backward", additive_scores_backward<S>, grid_of(size.seen.queries, size, 1),
             kThreads, backend.stream(), a, size);
    }
    if (wanted(1) && in.key.numel() > 0) {
      launch("additive_attention_backward", additive_key_backward<S>,
             grid_of(size.seen.keys, size, size.features), kLanes, backend.stream(), a, size,
             sink_of(args.gradients[1]));
    }
    if (!wanted(0) && !parameters) return;
    const Tensor du_parts = room({rows, size.features}), db_parts = room({rows, size.features});
    if (rows > 0) {
      launch("additive_attention_backward", additive_query_backward<S>,
             grid_of(size.seen.queries, size, size.features), kLanes, backend.stream(), a, size,
             sink_of(args.gradients[0]), du_parts.data<C>(), db_parts.data<C>());
    }
    const auto summed = [&](const Tensor& parts, const GradOutput& to) {
      backend.reduce().reduce(Reduction::sum, parts, 1u, to.tensor, to.accumulate);
    };
    if (wanted(5)) summed(db_parts, args.gradients[5]);
    if (!in.g.defined()) {
      if (wanted(3)) summed(du_parts, args.gradients[3]);
      return;
    }
    if (!wanted(3) && !wanted(4)) return;
    const Tensor du = room({size.features});
    summed(du_parts, {du, false});
    launch("additive_attention_backward", direction_backward_kernel<C>, 1, kThreads, backend.stream(),
           in.v.data<C>(), du.data<C>(), figures.data<C>(), sink_of(args.gradients[3]),
           sink_of(args.gradients[4]), size.features);
  });
}

}  // namespace tandem::cuda
