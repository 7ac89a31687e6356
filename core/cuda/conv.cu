// Convolution by cuDNN (core/cuda/dnn.h), and the steps that cuDNN lacks: converting operands to one type,
// adding a bias, converting the result, and accumulation.
//
// f64, empty operands, and outputs smaller than the padded image permits use direct kernels, which widen and
// sum in a fixed order. These are correct but not fast.
#include <cuda_runtime.h>

#include <array>
#include <cstdint>

#include "core/cuda/block_reduce.h"
#include "core/cuda/capture.h"
#include "core/cuda/conv_checks.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/dnn.h"
#include "core/cuda/launch.h"
#include "core/cuda/norm_columns.h"
#include "core/cuda/numeric.h"
#include "core/error.h"
#include "core/kernels/conv.h"
#include "core/kernels/matmul.h"
#include "core/kernels/shape.h"

namespace tandem::cuda {

using dnn::Convolution;
using dnn::Pass;

namespace {

// ---- Bias

// y = x + bias over the last axis, rounded once, N values at a time; y may be x. Rows have `row_packs` packs
// of N values; `bias` is aligned to 16 bytes.
template <class From, class To, int N>
__global__ void add_bias_packed(const From* x, const float* bias, To* y, Index packs, unsigned row_packs) {
  using Source = Pack<From, N>;
  using Target = Pack<To, N>;
  const Index stride = Index{gridDim.x} * blockDim.x, first = Index{blockIdx.x} * blockDim.x + threadIdx.x;
  // The position within the row advances by the same number of packs in every iteration.
  const unsigned step = static_cast<unsigned>(stride % row_packs);
  unsigned column = static_cast<unsigned>(first % row_packs);
  for (Index p = first; p < packs; p += stride) {
    const Source in = reinterpret_cast<const Source*>(x)[p];
    Pack<float, 4> offset[N / 4];
#pragma unroll
    for (int k = 0; k < N / 4; ++k)
      offset[k] = reinterpret_cast<const Pack<float, 4>*>(bias)[Index{column} * (N / 4) + k];
    Target out;
#pragma unroll
    for (int i = 0; i < N; ++i) store(&out.value[i], load(&in.value[i]) + offset[i / 4].value[i % 4]);
    reinterpret_cast<Target*>(y)[p] = out;
    column += step;
    if (column >= row_packs) column -= row_packs;
  }
}

__global__ void add_bias_any(const void* x, DType x_dtype, const float* bias, void* y, DType y_dtype,
                             Index count, Index channels) {
  const Index stride = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    store_any(y, y_dtype, i, load_any<float>(x, x_dtype, i) + bias[i % channels]);
}

// Returns whether it ran: needs tensors of these types, aligned, with channels in multiples of N.
template <class From, class To, int N>
bool try_add_bias(const Tensor& x, const Tensor& bias, const Tensor& y, cudaStream_t stream) {
  const Index channels = bias.numel(), packs = y.numel() / N;
  if (x.dtype() != dtype_of<From>() || y.dtype() != dtype_of<To>() || channels % N != 0 ||
      !is_aligned(x.raw(), N * sizeof(From)) || !is_aligned(y.raw(), N * sizeof(To)))
    return false;
  launch("add_bias", add_bias_packed<From, To, N>, blocks_for(packs), kThreads, stream, x.data<From>(),
         bias.data<float>(), y.data<To>(), packs, static_cast<unsigned>(channels / N));
  return true;
}

// `bias` is f32 and aligned to 16 bytes.
void add_bias(const Tensor& x, const Tensor& bias, const Tensor& y, cudaStream_t stream) {
  const auto try_both = [&]<class From, class To>(TypeTag<From>, TypeTag<To>) {
    return try_add_bias<From, To, 8>(x, bias, y, stream) || try_add_bias<From, To, 4>(x, bias, y, stream);
  };
  constexpr TypeTag<float> f32;
  constexpr TypeTag<Half> f16;
  constexpr TypeTag<BFloat16> bf16;
  if (try_add_bias<float, float, 4>(x, bias, y, stream) || try_both(f32, f16) || try_both(f32, bf16) ||
      try_both(f16, f16) || try_both(bf16, bf16))
    return;
  launch("add_bias", add_bias_any, blocks_for(y.numel()), kThreads, stream, x.raw(), x.dtype(),
         bias.data<float>(), y.raw(), y.dtype(), y.numel(), bias.numel());
}

// ---- Direct kernels

// Extents for the kernels; group_in and group_out are channels per group.
struct Extents {
  Index batch, height, width, channels, group_in;
  Index out_height, out_width, out_channels, group_out;
  Index kernel_height, kernel_width;
  Index stride[2], padding[2], dilation[2];
};

Extents extents_of(const Convolution& p) {
  const Conv2dOptions& o = p.options;
  return {p.batch,
          p.height,
          p.width,
          p.channels,
          p.channels / o.groups,
          p.out_height,
          p.out_width,
          p.out_channels,
          p.out_channels / o.groups,
          p.kernel_height,
          p.kernel_width,
          {o.stride[0], o.stride[1]},
          {o.padding[0], o.padding[1]},
          {o.dilation[0], o.dilation[1]}};
}

// Destination of a result: rounded once, and accumulated if requested.
struct Target {
  void* data;
  DType dtype;
  bool accumulate;

  template <class C>
  __device__ void put(Index i, C value) const {
    if (accumulate && dtype == DType::f64) {
      static_cast<double*>(data)[i] += value;
    } else {
      store_any(data, dtype, i, accumulate ? load_any<C>(data, dtype, i) + value : value);
    }
  }
};

// One thread per element of y; `bias` may be null.
template <class C>
__global__ void forward_kernel(Extents e, const C* x, const C* filter, const C* bias, Target y, Index count) {
  const Index stride = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const Index o = i % e.out_channels;
    Index rest = i / e.out_channels;
    const Index ox = rest % e.out_width;
    rest /= e.out_width;
    const Index oy = rest % e.out_height, n = rest / e.out_height;
    const C* image = x + n * e.height * e.width * e.channels + o / e.group_out * e.group_in;
    const C* weights = filter + o * e.kernel_height * e.kernel_width * e.group_in;
    C sum = bias ? bias[o] : C(0);
    for (Index ky = 0; ky < e.kernel_height; ++ky) {
      const Index iy = oy * e.stride[0] - e.padding[0] + ky * e.dilation[0];
      if (iy < 0 || iy >= e.height) continue;
      for (Index kx = 0; kx < e.kernel_width; ++kx) {
        const Index ix = ox * e.stride[1] - e.padding[1] + kx * e.dilation[1];
        if (ix < 0 || ix >= e.width) continue;
        const C* pixel = image + (iy * e.width + ix) * e.channels;
        const C* tap = weights + (ky * e.kernel_width + kx) * e.group_in;
        for (Index c = 0; c < e.group_in; ++c) sum += pixel[c] * tap[c];
      }
    }
    y.put(i, sum);
  }
}

// One thread per element of dx.
template <class C>
__global__ void input_gradient_kernel(Extents e, const C* dy, const C* filter, Target dx, Index count) {
  const Index stride = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const Index channel = i % e.channels;
    Index rest = i / e.channels;
    const Index ix = rest % e.width;
    rest /= e.width;
    const Index iy = rest % e.height, n = rest / e.height;
    const Index group = channel / e.group_in, c = channel % e.group_in;
    const Index taps = e.kernel_height * e.kernel_width * e.group_in;
    C sum = C(0);
    for (Index ky = 0; ky < e.kernel_height; ++ky) {
      const Index y = iy + e.padding[0] - ky * e.dilation[0];
      if (y < 0 || y % e.stride[0] != 0 || y / e.stride[0] >= e.out_height) continue;
      for (Index kx = 0; kx < e.kernel_width; ++kx) {
        const Index x = ix + e.padding[1] - kx * e.dilation[1];
        if (x < 0 || x % e.stride[1] != 0 || x / e.stride[1] >= e.out_width) continue;
        const C* gradient =
            dy + ((n * e.out_height + y / e.stride[0]) * e.out_width + x / e.stride[1]) * e.out_channels;
        const C* tap = filter + (ky * e.kernel_width + kx) * e.group_in + c;
        for (Index o = group * e.group_out; o < (group + 1) * e.group_out; ++o)
          sum += gradient[o] * tap[o * taps];
      }
    }
    dx.put(i, sum);
  }
}

// One block per element of the filter; its threads divide the positions of dy.
template <class C>
__global__ void filter_gradient_kernel(Extents e, const C* x, const C* dy, Target dfilter, Index count) {
  __shared__ C shared[kWarp];
  const Index positions = e.batch * e.out_height * e.out_width;
  for (Index i = blockIdx.x; i < count; i += gridDim.x) {
    const Index c = i % e.group_in;
    Index rest = i / e.group_in;
    const Index kx = rest % e.kernel_width;
    rest /= e.kernel_width;
    const Index ky = rest % e.kernel_height, o = rest / e.kernel_height;
    const Index channel = o / e.group_out * e.group_in + c;
    C sum = C(0);
    for (Index p = threadIdx.x; p < positions; p += blockDim.x) {
      const Index ox = p % e.out_width, oy = p / e.out_width % e.out_height;
      const Index n = p / e.out_width / e.out_height;
      const Index iy = oy * e.stride[0] - e.padding[0] + ky * e.dilation[0];
      const Index ix = ox * e.stride[1] - e.padding[1] + kx * e.dilation[1];
      if (iy < 0 || iy >= e.height || ix < 0 || ix >= e.width) continue;
      sum += dy[p * e.out_channels + o] * x[((n * e.height + iy) * e.width + ix) * e.channels + channel];
    }
    sum = block_reduce(sum, C(0), shared, Sum{});
    if (threadIdx.x == 0) dfilter.put(i, sum);
  }
}

// ---- Problems

// The common type of both operands for multiplication.
DType arithmetic_type(DType a, DType b) {
  if (a == DType::f64 || b == DType::f64) return DType::f64;
  return a == b && is_16bit(a) ? a : DType::f32;
}

// `tensor` in `dtype` and aligned for cuDNN: the tensor itself, or a copy in workspace.
Tensor operand(CudaBackend& backend, const Tensor& tensor, DType dtype) {
  if (!tensor.defined()) return tensor;
  const bool same = tensor.dtype() == dtype;
  if (same && is_aligned(tensor.raw(), dnn::Plan::kAlignment)) return tensor;
  const Tensor copy = backend.workspace(tensor.shape(), dtype);
  if (same) {
    backend.copy_bytes(tensor, copy);
  } else {
    backend.cast(tensor, copy, false);
  }
  return copy;
}

// Result type of a pass: that of its output if one rounding suffices, f32 if something is added later.
DType result_type(DType dtype, const Tensor& out, bool accumulate) {
  return out.dtype() == dtype && !accumulate ? dtype : DType::f32;
}

// ---- Few channels

// cuDNN 9.19's preferred engines on an H100 load 16-bit images with 1 or 3 channels one channel at a time,
// and those with 4 channels four at a time (knob LDGA); 8 channels would double the traffic. So images and
// filters with fewer channels are padded with zeros to 4 in a copy, which is small beside the output. The
// products are unchanged; cuDNN may sum them in another order.
constexpr Index kChannelsAtOnce = 4;

bool has_few_channels(const Convolution& p, DType multiplied) {
  return is_16bit(multiplied) && p.channels < kChannelsAtOnce && p.options.groups == 1;
}

// Copies 16-bit values x [pixels,channels] → y [pixels,kWidth], one pixel and one store per thread.
template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    spread_channels_kernel(const std::uint16_t* __restrict__ x, Index pixels, int channels,
                           Pack<std::uint16_t, kWidth>* __restrict__ y) {
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < pixels;
       i += Index{gridDim.x} * blockDim.x) {
    const std::uint16_t* const pixel = x + i * channels;
    Pack<std::uint16_t, kWidth> spread;
#pragma unroll
    for (int c = 0; c < kWidth; ++c) spread.value[c] = c < channels ? pixel[c] : std::uint16_t{0};
    y[i] = spread;
  }
}

// `tensor` [.., C] of a 16-bit dtype, padded with zeros to kWidth channels, in workspace.
template <int kWidth = kChannelsAtOnce>
Tensor with_zero_channels(CudaBackend& backend, const Tensor& tensor) {
  const Index channels = tensor.size(3), pixels = tensor.numel() / channels;
  const Tensor wide = backend.workspace(tensor.shape().with(3, kWidth), tensor.dtype());
  launch("spread_channels", spread_channels_kernel<kWidth>, blocks_for(pixels), kThreads, backend.stream(),
         static_cast<const std::uint16_t*>(tensor.raw()), pixels, static_cast<int>(channels),
         static_cast<Pack<std::uint16_t, kWidth>*>(wide.raw()));
  return wide;
}

// Copies the first C channels of `wide` [.., C'] to `out` [.., C].
void take_channels(CudaBackend& backend, const Tensor& wide, const Tensor& out, bool accumulate) {
  const Index channels = out.size(3);
  backend.shape().strided_copy(wide, {.strides = {wide.size(3), 1}}, out, {.strides = {channels, 1}},
                               {out.numel() / channels, channels}, accumulate);
}

// ---- Gradients

// A gradient by cuDNN. If cuDNN would round an f32 gradient of 16-bit operands to 16 bits, the operands are
// widened instead: products of 16-bit numbers are exact in f32, and the operands are exact in TF32.
void run_gradient(CudaBackend& backend, Pass pass, Convolution p, DType dtype, const Tensor& a,
                  const Tensor& b, const Tensor& out, bool accumulate) {
  p.dtype = dtype;
  p.result = result_type(dtype, out, accumulate);
  dnn::Plan& plan = backend.dnn().plan(pass, p);
  const DType written = plan.carried().result;
  if (is_16bit(written) && out.dtype() == DType::f32)
    return run_gradient(backend, pass, p, DType::f32, a, b, out, accumulate);
  const Tensor first = operand(backend, a, dtype), second = operand(backend, b, dtype);
  const bool direct = written == out.dtype() && !accumulate && is_aligned(out.raw(), dnn::Plan::kAlignment);
  const Tensor result = direct ? out : backend.workspace(out.shape(), written);
  dnn::Plan::Widened widened;
  if (pass == Pass::filter_gradient && !plan.tuned())
    widened = [&] { run_gradient(backend, pass, p, DType::f32, a, b, result, false); };
  plan.run({first.raw(), second.raw(), nullptr, result.raw()}, widened);
  if (!direct) backend.cast(result, out, accumulate);
}

// ---- Addition

// Adds the gradient to dx in one cuDNN pass that reads and writes dx. Returns whether it ran: only if timing
// is allowed, and during capture only if already tuned. cuDNN does not document in-place addition, so it is
// first verified on the actual data.
bool try_to_add(CudaBackend& backend, Convolution p, DType dtype, const Tensor& dy, const Tensor& filter,
                const Tensor& dx) {
  const Rules& rules = backend.rules();
  if (rules.deterministic || !rules.tune) return false;
  for (const Tensor* t : {&dy, &filter, &dx}) {
    if (t->dtype() != dtype || !is_aligned(t->raw(), dnn::Plan::kAlignment)) return false;
  }
  const Convolution separate = p;
  p.dtype = p.result = dtype;
  p.add = true;
  dnn::Plan* const plan = backend.dnn().fused_plan(Pass::input_gradient, p);
  if (!plan) return false;
  if (!plan->tuned()) {
    if (is_captured(backend.stream())) return false;
    Tensor apart, copy;
    try {
      apart = backend.workspace(dx.shape(), dtype);
      copy = backend.workspace(dx.shape(), dtype);
    } catch (const VendorError&) {  // not enough memory to verify it
      backend.dnn().dismiss(*plan);
      return false;
    }
    const dnn::Rival rival{
        .run = [&] { run_gradient(backend, Pass::input_gradient, separate, dtype, dy, filter, copy, true); },
        .confirms =
            [&](const dnn::Rival::Run& run) {
              backend.copy_bytes(dx, copy);
              run({dy.raw(), filter.raw(), copy.raw(), copy.raw()});
              return same_sums(backend, copy, apart, dx);
            }};
    if (!backend.dnn().try_out(*plan, {dy.raw(), filter.raw(), dx.raw(), apart.raw()}, rival)) return false;
  }
  plan->run({dy.raw(), filter.raw(), dx.raw(), dx.raw()});
  return true;
}

// ---- 1×1 filters

// dx ← dx + dy·filter, rounded once, if cuBLASLt supports the product. Returns whether it ran.
bool try_to_add_product(CudaBackend& backend, const Convolution& p, DType type, const Tensor& dy,
                        const Tensor& filter, const Tensor& dx) {
  const bool as_it_is = dy.dtype() == type && filter.dtype() == type;
  if (!dnn::is_product(Pass::input_gradient, p) || !as_it_is ||
      (dx.dtype() != type && dx.dtype() != DType::f32))
    return false;
  const Index positions = p.batch * p.height * p.width;
  backend.matmul().matmul(dy.viewed({positions, p.out_channels}), filter.viewed({p.out_channels, p.channels}),
                          {}, dx.viewed({positions, p.channels}), {.accumulate = true});
  return true;
}

bool is_pointwise(const Convolution& p) {
  const Conv2dOptions& o = p.options;
  return p.kernel_height == 1 && p.kernel_width == 1 && o.groups == 1 && o.padding[0] == 0 &&
         o.padding[1] == 0;
}

// dfilter [O,1,1,C] = dyᵀ·x over all positions, for 16-bit operands with an f32 or 16-bit result. cuBLASLt
// splits the long sum if that is faster; cuDNN supports few such shapes. A stride skips pixels of x.
void multiply_pixels(CudaBackend& backend, const Convolution& p, const Tensor& x, const Tensor& dy,
                     const Tensor& dfilter, bool accumulate) {
  const Index positions = p.batch * p.out_height * p.out_width;
  Tensor pixels = x;
  if (p.options.stride != std::array<Index, 2>{1, 1}) {
    pixels = backend.workspace({p.batch, p.out_height, p.out_width, p.channels}, x.dtype());
    const Index row = p.width * p.channels, out_row = p.out_width * p.channels;
    backend.shape().strided_copy(
        x, {.strides = {p.height * row, p.options.stride[0] * row, p.options.stride[1] * p.channels, 1}},
        pixels, {.strides = {p.out_height * out_row, out_row, p.channels, 1}}, pixels.shape(), false);
  }
  backend.matmul().matmul(dy.viewed({positions, p.out_channels}), pixels.viewed({positions, p.channels}), {},
                          dfilter.viewed({p.out_channels, p.channels}),
                          {.transpose_a = true, .accumulate = accumulate});
}

// ---- Sums

// The statistics pass of batch norm without fused sums, for comparison.
void gather_for_timing(CudaBackend& backend, const Tensor& y, cudaStream_t stream) {
  const Index channels = y.size(-1), rows = y.numel() / channels;
  const ColumnTypes types = column_types({&y}, channels);
  const ColumnPlan plan = statistics_plan(1, rows, channels, types, y.dtype());
  const Tensor partial = backend.workspace(Shape{3, plan.slices, channels}, types.compute);
  gather_statistics(y, plan, types, partial.raw(), stream);
}

struct CudaConv final : GpuKernels<ConvKernels> {
  using GpuKernels::GpuKernels;

  void conv2d(const Tensor& x, const Tensor& filter, const Tensor& bias, const Tensor& y,
              const Conv2dOptions& options) override {
    if (y.numel() == 0) return;
    Convolution p = problem_of<Convolution>(x, filter, y, options);
    DType type = arithmetic_type(x.dtype(), filter.dtype());
    if (bias.defined() && bias.dtype() == DType::f64) type = DType::f64;
    if (type == DType::f64 || !dnn::expressible(p)) {
      visit_compute(type, [&]<class C>(TypeTag<C>) {
        constexpr DType wide = dtype_of<C>();
        const Tensor image = operand(backend, x, wide), weights = operand(backend, filter, wide);
        const Tensor offset = operand(backend, bias, wide);
        launch("conv2d", forward_kernel<C>, blocks_for(y.numel()), kThreads, backend.stream(), extents_of(p),
               image.data<C>(), weights.data<C>(), data_or_null<C>(offset), Target{y.raw(), y.dtype(), false},
               y.numel());
      });
      return;
    }
    p.dtype = type;
    p.result = result_type(type, y, false);
    p.bias = bias.defined();
    const bool few = has_few_channels(p, type);
    if (few) p.channels = kChannelsAtOnce;
    const auto with_channels = [&](const Tensor& given) {
      const Tensor tensor = operand(backend, given, type);
      return few ? with_zero_channels(backend, tensor) : tensor;
    };
    const Tensor image = with_channels(x), weights = with_channels(filter);
    const Tensor offset = operand(backend, bias, DType::f32);
    dnn::Plan& plan = backend.dnn().plan(Pass::forward, p);
    const Convolution& carried = plan.carried();
    const bool direct = carried.result == y.dtype() && is_aligned(y.raw(), dnn::Plan::kAlignment);
    const Tensor result = direct ? y : backend.workspace(y.shape(), carried.result);
    plan.run({image.raw(), weights.raw(), carried.bias ? offset.raw() : nullptr, result.raw()});
    if (p.bias && !carried.bias) {
      add_bias(result, offset, y, backend.stream());
    } else if (!direct) {
      backend.cast(result, y, false);
    }
  }

  // Runs only if timing is allowed, and during capture only if already tuned: cuDNN's fused sums are used if
  // they are correct and faster than batch norm's own pass over y.
  Tensor conv2d_with_sums(const Tensor& x, const Tensor& filter, const Tensor& y,
                          const Conv2dOptions& options) override {
    for (const Tensor* t : {&x, &filter, &y}) {
      if (t->dtype() != DType::f16 || !is_aligned(t->raw(), dnn::Plan::kAlignment)) return {};
    }
    Convolution p = problem_of<Convolution>(x, filter, y, options);
    if (backend.rules().deterministic || !backend.rules().tune || y.numel() == 0 || y.size(3) % 4 != 0 ||
        !dnn::expressible(p))
      return {};
    const bool few = has_few_channels(p, DType::f16);
    if (few) p.channels = kChannelsAtOnce;
    p.dtype = p.result = DType::f16;
    p.sums = true;
    dnn::Plan* const plan = backend.dnn().fused_plan(Pass::forward, p);
    if (!plan || (!plan->tuned() && is_captured(backend.stream()))) return {};
    const Tensor sums = Tensor::empty({2, y.size(3)}, {.dtype = DType::f32, .device = backend.device()});
    const float* const sum = sums.data<float>();
    const Tensor image = few ? with_zero_channels(backend, x) : x,
                 weights = few ? with_zero_channels(backend, filter) : filter;
    const dnn::Addresses addresses{image.raw(), weights.raw(), nullptr, y.raw(), sum, sum + y.size(3)};
    if (!plan->tuned()) {
      const dnn::Rival rival{.run =
                                 [&] {
                                   conv2d(x, filter, {}, y, options);
                                   gather_for_timing(backend, y, backend.stream());
                                 },
                             .confirms = [&](const auto&) { return sums_are_right(backend, y, sums); }};
      if (!backend.dnn().try_out(*plan, addresses, rival)) return {};
    }
    plan->run(addresses);
    return sums;
  }

  void conv2d_input_gradient(const Tensor& dy, const Tensor& filter, const Tensor& dx,
                             const Conv2dOptions& options, bool accumulate) override {
    if (dx.numel() == 0) return;
    const Convolution p = problem_of<Convolution>(dx, filter, dy, options);
    const DType type = arithmetic_type(dy.dtype(), filter.dtype());
    if (type != DType::f64 && dnn::expressible(p)) {
      if (!accumulate || (!try_to_add_product(backend, p, type, dy, filter, dx) &&
                          !try_to_add(backend, p, type, dy, filter, dx)))
        run_gradient(backend, Pass::input_gradient, p, type, dy, filter, dx, accumulate);
      return;
    }
    visit_compute(type, [&]<class C>(TypeTag<C>) {
      const Tensor gradient = operand(backend, dy, dtype_of<C>()),
                   weights = operand(backend, filter, dtype_of<C>());
      launch("conv2d_input_gradient", input_gradient_kernel<C>, blocks_for(dx.numel()), kThreads,
             backend.stream(), extents_of(p), gradient.data<C>(), weights.data<C>(),
             Target{dx.raw(), dx.dtype(), accumulate}, dx.numel());
    });
  }

  void conv2d_filter_gradient(const Tensor& x, const Tensor& dy, const Tensor& dfilter,
                              const Conv2dOptions& options, bool accumulate) override {
    if (dfilter.numel() == 0) return;
    Convolution p = problem_of<Convolution>(x, dfilter, dy, options);
    const DType type = arithmetic_type(x.dtype(), dy.dtype());
    const bool narrow = is_16bit(type) && (dfilter.dtype() == DType::f32 || dfilter.dtype() == type);
    if (narrow && is_pointwise(p) && dnn::expressible(p))
      return multiply_pixels(backend, p, x, dy, dfilter, accumulate);
    constexpr int kWhole = dnn::kChannelsOfWideGradients;
    if (is_16bit(type) && p.options.groups == 1 && p.channels < kWhole && p.out_channels % kWhole == 0 &&
        dnn::expressible(p)) {
      p.channels = kWhole;
      const Tensor wide = backend.workspace(dfilter.shape().with(3, p.channels), dfilter.dtype());
      run_gradient(backend, Pass::filter_gradient, p, type, with_zero_channels<kWhole>(backend, x), dy, wide,
                   false);
      return take_channels(backend, wide, dfilter, accumulate);
    }
    if (type != DType::f64 && dnn::expressible(p))
      return run_gradient(backend, Pass::filter_gradient, p, type, x, dy, dfilter, accumulate);
    visit_compute(type, [&]<class C>(TypeTag<C>) {
      const Tensor image = operand(backend, x, dtype_of<C>()), gradient = operand(backend, dy, dtype_of<C>());
      launch("conv2d_filter_gradient", filter_gradient_kernel<C>, blocks_for(dfilter.numel(), 1), kThreads,
             backend.stream(), extents_of(p), image.data<C>(), gradient.data<C>(),
             Target{dfilter.raw(), dfilter.dtype(), accumulate}, dfilter.numel());
    });
  }
};

}  // namespace

ConvKernels& CudaBackend::conv() { return own<CudaConv>(kernels_.conv); }

}  // namespace tandem::cuda
