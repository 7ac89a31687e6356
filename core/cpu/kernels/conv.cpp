// Convolution. f32 runs on own kernels (core/cpu/conv_direct) or oneDNN, f16 on own kernels that widen what
// they read, bf16 on either by the rule of library_multiplies; f64 and what oneDNN's
// descriptors cannot say run as im2col and a product (core/cpu/conv_generic); everything else is widened to
// f32 in memory. Sums are f32, or f64, and rounded once on store.
//
// The plan of a shape is fixed by the shape (never by timing), so that results do not depend on the moment.
#include "core/cpu/kernels/conv.h"

#include "core/cpu/kernels/conv_direct.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/level.h"
#include "core/cpu/packed_weights.h"
#include "core/plan.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Convolution;
using onednn::Layout;
using onednn::Pass;
using onednn::Primitive;

namespace {

Tensor workspace(const Shape& shape, DType dtype) {
  return Tensor::empty(shape, {.dtype = dtype, .kind = MemoryKind::workspace});
}

// `tensor` in `dtype`: itself, or a converted copy in workspace.
Tensor as(const Tensor& tensor, DType dtype) {
  if (!tensor.defined() || tensor.dtype() == dtype) return tensor;
  const Tensor copy = workspace(tensor.shape(), dtype);
  backend().cast(tensor, copy, false);
  return copy;
}

// The type both operands are multiplied in.
DType arithmetic_type(DType a, DType b) {
  if (a == DType::f64 || b == DType::f64) return DType::f64;
  if (a == DType::bf16 && b == DType::bf16 && onednn::multiplies_bf16()) return DType::bf16;
  return DType::f32;
}

Convolution problem_of(const Tensor& x, const Tensor& filter, const Tensor& y, const Conv2dOptions& options) {
  return {.batch = x.size(0),
          .height = x.size(1),
          .width = x.size(2),
          .channels = x.size(3),
          .out_height = y.size(1),
          .out_width = y.size(2),
          .out_channels = y.size(3),
          .kernel_height = filter.size(1),
          .kernel_width = filter.size(2),
          .options = options};
}

PlanKey key_of(Pass pass, const Convolution& p) {
  return PlanKey(pass, p.batch, p.height, p.width, p.channels, p.out_height, p.out_width, p.out_channels,
                 p.kernel_height, p.kernel_width, p.options.stride[0], p.options.stride[1],
                 p.options.padding[0], p.options.padding[1], p.options.dilation[0], p.options.dilation[1],
                 p.options.groups, p.dtype, p.result, p.bias, threads());
}

// A 1×1 kernel without padding: a matrix product over the pixels.
bool is_pointwise(const Convolution& p) {
  return p.kernel_height == 1 && p.kernel_width == 1 && p.options.padding == std::array<Index, 2>{0, 0} &&
         p.options.groups == 1;
}
bool is_dense(const Convolution& p) { return p.options.stride == std::array<Index, 2>{1, 1}; }

// A pass of one shape on own kernels or oneDNN; neither for the filter gradient of a strided 1×1 kernel that
// own kernels do not suit, which is a product of the pixels that the stride hits: oneDNN's kernels for it
// overrun their scratchpads (onednn.cpp), and its others are slower. ms on one Zen 5 core, AVX2, kernel of
// 1×1 that gathers → next one → product of gathered pixels: batch 64, 4→8@28/2 0.026 → 0.017 → 0.022; batch
// 128, 32→64@14/2 0.24 → 0.45 → 0.21; batch 32, 64→128@56/2 6.3 → 17.4 → 3.6.
struct Plan {
  std::unique_ptr<DirectConvolution> direct;  // or:
  std::unique_ptr<Primitive> primitive;
  const Layout* plain = nullptr;          // the filter, or its gradient, as Tandem keeps it
  const Layout* wanted = nullptr;         // as the primitive wants it
  std::unique_ptr<Primitive> store, add;  // filter_gradient: wanted → plain
};

Plan& plan_of(Pass pass, const Convolution& p) {
  static PlanCache<Plan> plans;
  return plans.get(key_of(pass, p), [&] {
    auto plan = std::make_unique<Plan>();
    if (p.dtype == DType::f32) plan->direct = direct_convolution(pass, p);
    if (plan->direct || (pass == Pass::filter_gradient && is_pointwise(p) && !is_dense(p))) return plan;
    plan->primitive = onednn::convolution(pass, p);
    plan->plain = onednn::plain_filter(p, pass == Pass::filter_gradient ? p.result : p.dtype);
    plan->wanted = plan->primitive->layout(pass == Pass::filter_gradient ? 2 : 1);
    if (pass == Pass::filter_gradient) {
      if (plan->wanted != plan->plain) plan->store = onednn::reorder(plan->wanted, plan->plain);
      plan->add = onednn::reorder(plan->wanted, plan->plain, true);
    }
    return plan;
  });
}

// Whether bf16 is the library's, which multiplies it in hardware, rather than own kernels', which widen it.
// With AMX the library is faster by several times; without bf16 products it is not asked. With AVX512-BF16
// alone own kernels win the filter gradients that Winograd's tiles suit, and strided input gradients of few
// channels. ms on one Zen 5 core, library → own, batch 128, at 56 pixels 16:
//   filter gradient 3×3  32→32@14 1.54 → 1.41   64→64@7 1.78 → 1.48   64→64@56 9.74 → 8.85
//                      128→128@28 8.76 → 8.75  256→256@14 8.50 → 17.0
//   input gradient /2    16→32@28 1.75 → 1.20  1×1 16→32@28 0.86 → 0.45  1×1 32→64@14 0.39 → 0.33
//                        32→64@14 1.02 → 1.01    128→128@56 8.45 → 16.8
//   forward              64→64@56 7.51 → 8.48    64→256@56 1×1 3.56 → 8.87  256→256@14 7.10 → 7.91
bool library_multiplies(Pass pass, const Convolution& p) {
  if (p.dtype != DType::bf16 || !onednn::multiplies_bf16()) return false;
  if (level() == Level::amx) return true;
  const bool dense = p.options.stride == std::array<Index, 2>{1, 1};
  const Index channels = p.channels * p.out_channels;
  switch (pass) {
    case Pass::forward:
      return true;
    case Pass::input_gradient:
      return dense || channels > 32 * 64;
    case Pass::filter_gradient:
      return !dense || p.kernel_height != 3 || p.kernel_width != 3 || channels < 32 * 32 ||
             channels > 128 * 128;
  }
  return true;
}

// The own kernel for a pass over two operands of one 16-bit dtype; nullptr where there is none.
const DirectConvolution* kernel_16bit(Pass pass, Convolution p, const Tensor& a, const Tensor& b,
                                      DType result) {
  p.dtype = a.dtype();
  p.result = result;
  if (!is_16bit(p.dtype) || b.dtype() != p.dtype || library_multiplies(pass, p)) return nullptr;
  static PlanCache<Plan> plans;
  const auto make = [&] { return std::make_unique<Plan>(Plan{.direct = direct_convolution(pass, p)}); };
  return plans.get(key_of(pass, p), make).direct.get();
}

// Matrix views of images and of a 1×1 filter.
Tensor pixels_of(const Tensor& image) { return image.viewed({image.numel() / image.size(3), image.size(3)}); }
Tensor matrix_of(const Tensor& filter) { return filter.viewed({filter.size(0), filter.size(3)}); }

// From this many elements on the gradient of a 1×1 filter is a matrix product, dyᵀ·x, of the pixels that the
// stride hits. GFLOP/s of one Zen 5 core, own kernel → product: 256→1024@14 203 → 201, 1024→256@14 193 → 216,
// 1024→512@14 198 → 211, 512→2048@7 190 → 233, 2048→512@7 172 → 223, 1024→2048@14/2 168 → 242; 512→256@28 211
// → 212.
constexpr Index kLargePointwise = 128 * 1024;

// The pixels of x under a 1×1 kernel with a stride, gathered.
Tensor gather_pixels(const Convolution& p, const Tensor& x) {
  const Tensor y = workspace({p.batch, p.out_height, p.out_width, p.channels}, x.dtype());
  StridedView from;
  from.strides = {p.height * p.width * p.channels, p.options.stride[0] * p.width * p.channels,
                  p.options.stride[1] * p.channels, 1};
  backend().strided_copy(x, from, y, {0, y.shape().strides()}, y.shape(), false);
  return y;
}

PackedWeights filter_for(const Plan& plan, const Tensor& filter) {
  return plan.wanted == plan.plain ? PackedWeights(filter) : onednn::packed(filter, plan.plain, plan.wanted);
}

}  // namespace

void CpuBackend::conv2d(const Tensor& x, const Tensor& filter, const Tensor& bias, const Tensor& y,
                        const Conv2dOptions& options) {
  if (y.numel() == 0) return;
  Convolution p = problem_of(x, filter, y, options);
  DType type = arithmetic_type(x.dtype(), filter.dtype());
  if (bias.defined() && bias.dtype() == DType::f64) type = DType::f64;
  const DType wide = wide_of(type);
  if (type == DType::f64 || x.numel() == 0 || filter.numel() == 0 || !onednn::expressible(p)) {
    const Tensor out = y.dtype() == wide ? y : workspace(y.shape(), wide);
    generic_conv2d(p, as(x, wide), as(filter, wide), as(bias, wide), out);
    if (!out.is_same(y)) cast(out, y, false);
    return;
  }
  p.bias = bias.defined();
  if (const auto* kernel = kernel_16bit(Pass::forward, p, x, filter, y.dtype()))
    return kernel->run(x, filter, as(bias, DType::f32), y, false);
  p.dtype = type;
  p.result = y.dtype() == DType::bf16 && type == DType::bf16 ? DType::bf16 : DType::f32;
  const Tensor out = y.dtype() == p.result ? y : workspace(y.shape(), p.result);
  const Tensor source = as(x, type), weights = as(filter, type), offset = as(bias, DType::f32);
  const Plan& plan = plan_of(Pass::forward, p);
  if (plan.direct) {
    plan.direct->run(source, weights, offset, out, false);
  } else if (p.bias) {
    plan.primitive->run({source.raw(), filter_for(plan, weights).raw(), offset.raw(), out.raw()});
  } else {
    plan.primitive->run({source.raw(), filter_for(plan, weights).raw(), out.raw()});
  }
  if (!out.is_same(y)) cast(out, y, false);
}

void CpuBackend::conv2d_input_gradient(const Tensor& dy, const Tensor& filter, const Tensor& dx,
                                       const Conv2dOptions& options, bool accumulate) {
  if (dx.numel() == 0) return;
  Convolution p = problem_of(dx, filter, dy, options);
  const DType type = arithmetic_type(dy.dtype(), filter.dtype());
  const DType wide = wide_of(type);
  if (type == DType::f64 || dy.numel() == 0 || filter.numel() == 0 || !onednn::expressible(p)) {
    const bool direct = dx.dtype() == wide && !accumulate;
    const Tensor out = direct ? dx : workspace(dx.shape(), wide);
    generic_input_gradient(p, as(dy, wide), as(filter, wide), out);
    if (!direct) cast(out, dx, accumulate);
    return;
  }
  if (const auto* kernel = kernel_16bit(Pass::input_gradient, p, dy, filter, dx.dtype()))
    return kernel->run(dy, filter, {}, dx, accumulate);
  p.dtype = type;
  p.result = dx.dtype() == DType::bf16 && type == DType::bf16 && !accumulate ? DType::bf16 : DType::f32;
  const Tensor source = as(dy, type), weights = as(filter, type);
  if (accumulate && is_pointwise(p) && is_dense(p) && dx.dtype() == DType::f32)  // the product adds by itself
    return matmul(pixels_of(source), matrix_of(weights), {}, pixels_of(dx), {.accumulate = true});
  const Plan& plan = plan_of(Pass::input_gradient, p);
  const bool same = dx.dtype() == p.result;
  if (plan.direct && same) return plan.direct->run(source, weights, {}, dx, accumulate);
  const bool direct = same && !accumulate;
  const Tensor out = direct ? dx : workspace(dx.shape(), p.result);
  if (plan.direct) {
    plan.direct->run(source, weights, {}, out, false);
    return cast(out, dx, accumulate);
  }
  plan.primitive->run({source.raw(), filter_for(plan, weights).raw(), out.raw()});
  if (!direct) cast(out, dx, accumulate);
}

void CpuBackend::conv2d_filter_gradient(const Tensor& x, const Tensor& dy, const Tensor& dfilter,
                                        const Conv2dOptions& options, bool accumulate) {
  if (dfilter.numel() == 0) return;
  Convolution p = problem_of(x, dfilter, dy, options);
  const DType type = arithmetic_type(x.dtype(), dy.dtype());
  const DType wide = wide_of(type);
  if (type == DType::f64 || x.numel() == 0 || dy.numel() == 0 || !onednn::expressible(p)) {
    const bool direct = dfilter.dtype() == wide && !accumulate;
    const Tensor out = direct ? dfilter : workspace(dfilter.shape(), wide);
    generic_filter_gradient(p, as(x, wide), as(dy, wide), out);
    if (!direct) cast(out, dfilter, accumulate);
    return;
  }
  const bool direct = dfilter.dtype() == DType::f32;
  const bool add = direct && accumulate;
  const Tensor out = direct ? dfilter : workspace(dfilter.shape(), DType::f32);
  if (const auto* kernel = kernel_16bit(Pass::filter_gradient, p, x, dy, DType::f32)) {
    kernel->run(x, dy, {}, out, add);
    if (!direct) cast(out, dfilter, accumulate);
    return;
  }
  p.dtype = type;
  const Tensor source = as(x, type), gradient = as(dy, type);
  const bool large = is_pointwise(p) && out.numel() >= kLargePointwise;
  const Plan* plan = large ? nullptr : &plan_of(Pass::filter_gradient, p);
  if (!plan || !(plan->direct || plan->primitive)) {
    const Tensor hit = is_dense(p) ? source : gather_pixels(p, source);
    matmul(pixels_of(gradient), pixels_of(hit), {}, matrix_of(out), {.transpose_a = true, .accumulate = add});
  } else if (plan->direct) {
    plan->direct->run(source, gradient, {}, out, add);
  } else if (plan->wanted == plan->plain && !add) {
    plan->primitive->run({source.raw(), gradient.raw(), out.raw()});
  } else {
    const Tensor other = workspace({static_cast<Index>(plan->wanted->bytes / sizeof(float))}, DType::f32);
    plan->primitive->run({source.raw(), gradient.raw(), other.raw()});
    (add ? plan->add : plan->store)->run({other.raw(), out.raw()});
  }
  if (!direct) cast(out, dfilter, accumulate);
}

}  // namespace tandem::cpu::TANDEM_LEVEL
