// Convolution, dispatched to the algorithm from core/cpu/conv_choice.h: own kernels, oneDNN, a matrix
// product, or im2col and a matrix product. Sums are f32 or f64 and are rounded once on store.
#include "core/cpu/kernels/conv.h"

#include "core/cpu/conv_choice.h"
#include "core/cpu/conv_probe.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/conv_direct.h"
#include "core/cpu/kernels/conv_library.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/shares.h"
#include "core/cpu/packed_weights.h"
#include "core/kernel_cache.h"
#include "core/kernels/conv.h"
#include "core/kernels/matmul.h"
#include "core/kernels/shape.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Convolution;
using onednn::Layout;
using onednn::Pass;
using onednn::Primitive;

namespace {

using Forced = std::optional<ConvAlgorithm>;

KernelKey key_of(Pass pass, const Convolution& p, const ConvDtypes& dtypes, bool accumulate, Forced forced) {
  const int types = static_cast<int>(dtypes.a) | static_cast<int>(dtypes.b) << 8 |
                    static_cast<int>(dtypes.out) << 16 | (forced ? static_cast<int>(*forced) + 1 : 0) << 24;
  return KernelKey(pass, p.batch, p.height, p.width, p.channels, p.out_height, p.out_width, p.out_channels,
                   p.kernel_height, p.kernel_width, p.options.stride[0], p.options.stride[1],
                   p.options.padding[0], p.options.padding[1], p.options.dilation[0], p.options.dilation[1],
                   p.options.groups, types, p.bias, accumulate, threads());
}

// Kernel or oneDNN primitives of one pass and shape, created once.
struct Plan {
  ConvAlgorithm algorithm;
  std::string name;     // for ConvolutionTrace
  Convolution problem;  // with the dtypes of the operands and the result
  std::unique_ptr<DirectConvolution> own;
  std::unique_ptr<LibraryConvolution> library;
  const Layout* plain = nullptr;          // layout of the filter (or its gradient) in Tandem
  const Layout* wanted = nullptr;         // layout that oneDNN prefers
  std::unique_ptr<Primitive> store, add;  // filter_gradient: wanted → plain
};

void plan_library(Pass pass, Plan& plan) {
  const Convolution& p = plan.problem;
  const bool filter = pass == Pass::filter_gradient;
  plan.library = std::make_unique<LibraryConvolution>(pass, p);
  plan.name += ' ' + plan.library->implementation();
  plan.plain = onednn::plain_filter(p, filter ? p.result : p.dtype);
  plan.wanted = plan.library->layout(filter ? 2 : 1);
  if (!filter) return;
  if (plan.wanted != plan.plain) plan.store = onednn::reorder(plan.wanted, plan.plain);
  plan.add = onednn::reorder(plan.wanted, plan.plain, true);
}

ConvChoice choice_of(Forced forced, Pass pass, const Convolution& p, const ConvDtypes& dtypes,
                     bool accumulate) {
  if (!forced) return choose_convolution(pass, p, dtypes, accumulate, conv_machine());
  const auto choice = convolution_by(*forced, pass, p, dtypes, accumulate, conv_machine());
  ensure(choice.has_value(), "conv2d", "{} cannot compute {}", cpu::name_of(*forced), to_string(p));
  return *choice;
}

const Plan& plan_of(Pass pass, const Convolution& p, const ConvDtypes& dtypes, bool accumulate = false) {
  static KernelCache<Plan> plans;
  const Forced forced = ForcedConvolution::active();
  return plans.get(key_of(pass, p, dtypes, accumulate, forced), [&] {
    const ConvChoice choice = choice_of(forced, pass, p, dtypes, accumulate);
    auto made = std::make_unique<Plan>(Plan{
        .algorithm = choice.algorithm, .name = std::string(cpu::name_of(choice.algorithm)), .problem = p});
    made->problem.dtype = choice.operands;
    made->problem.result = choice.result;
    if (choice.algorithm == ConvAlgorithm::library) plan_library(pass, *made);
    if (is_own(choice.algorithm)) made->own = own_convolution(choice.algorithm, pass, made->problem);
    return made;
  });
}

// Records the plan in the active trace.
const Plan& traced(const Plan& plan) {
  if (ConvolutionTrace* trace = ConvolutionTrace::active()) [[unlikely]]
    trace->add(plan.name);
  return plan;
}

// The output tensor itself, or workspace of the result's dtype that is cast into it afterwards.
Tensor target(const Tensor& tensor, const Plan& plan, bool adds) {
  return tensor.dtype() == plan.problem.result && adds ? tensor
                                                       : workspace(tensor.shape(), plan.problem.result);
}

// Matrix views for products: one row per filter or image, and one row per pixel.
Tensor rows_of(const Tensor& t) { return t.viewed({t.size(0), t.numel() / t.size(0)}); }
Tensor pixels_of(const Tensor& image) { return image.viewed({image.numel() / image.size(3), image.size(3)}); }

// One row per kernel position: a whole image if the kernel covers it, else a pixel.
Tensor places_of(const Convolution& p, const Tensor& image) {
  return covers_image(p) ? rows_of(image) : pixels_of(image);
}

// The rows of x that the kernel reads. Pixels of a strided 1×1 kernel are gathered.
Tensor places_hit(const Convolution& p, const Tensor& x) {
  if (covers_image(p) || is_dense(p)) return places_of(p, x);
  const Tensor y = workspace({p.batch, p.out_height, p.out_width, p.channels}, x.dtype());
  StridedView from;
  from.strides = {p.height * p.width * p.channels, p.options.stride[0] * p.width * p.channels,
                  p.options.stride[1] * p.channels, 1};
  backend().shape().strided_copy(x, from, y, {0, y.shape().strides()}, y.shape(), false);
  return pixels_of(y);
}

PackedWeights filter_for(const Plan& plan, const Tensor& filter) {
  return plan.wanted == plan.plain ? PackedWeights(filter) : onednn::packed(filter, plan.plain, plan.wanted);
}

// Minimum size in bytes of y for moments fused into the convolution. The pass of batch norm over a smaller y
// reads it from the caches. Step time without fusion relative to fusion, median (quartiles), two Zen 5 cores:
// ResNet-20 in f32 (outputs up to 6 MB) 1.03 (1.00 to 1.06), in f16 (3 MB) 0.98 (0.96 to 1.01); ResNet-50 in
// f16 (3 to 26 MB) 1.05 (0.98 to 1.06). The threshold is a constant so that results agree across machines.
constexpr std::size_t kLargeOutput = std::size_t{4} << 20;

struct CpuConv final : ConvKernels {
  void conv2d(const Tensor& x, const Tensor& filter, const Tensor& bias, const Tensor& y,
              const Conv2dOptions& options) override {
    if (y.numel() == 0) return;
    Convolution p = problem_of<Convolution>(x, filter, y, options);
    p.bias = bias.defined();
    const bool wide_bias = p.bias && bias.dtype() == DType::f64;
    const Plan& plan =
        traced(plan_of(Pass::forward, p, {wide_bias ? DType::f64 : x.dtype(), filter.dtype(), y.dtype()}));
    const DType operands = plan.problem.dtype;
    const Tensor source = as(x, operands), weights = as(filter, operands),
                 offset = as(bias, wide_of(operands));
    const Tensor out = target(y, plan, true);
    switch (plan.algorithm) {
      case ConvAlgorithm::generic:
        generic_conv2d(plan.problem, source, weights, offset, out);
        break;
      case ConvAlgorithm::direct:
      case ConvAlgorithm::winograd:
      case ConvAlgorithm::depthwise:
      case ConvAlgorithm::amx:
        plan.own->run(source, weights, offset, out, false);
        break;
      case ConvAlgorithm::library:
        if (p.bias) {
          plan.library->run({source.raw(), filter_for(plan, weights).raw(), offset.raw(), out.raw()});
        } else {
          plan.library->run({source.raw(), filter_for(plan, weights).raw(), out.raw()});
        }
        break;
      case ConvAlgorithm::product:
        backend().matmul().matmul(places_of(p, source), rows_of(weights), offset, pixels_of(out),
                                  {.transpose_b = true});
        break;
    }
    if (!out.is_same(y)) backend().cast(out, y, false);
  }

  Tensor conv2d_with_sums(const Tensor& x, const Tensor& filter, const Tensor& y,
                          const Conv2dOptions& options) override {
    if (y.bytes() < kLargeOutput) return {};
    const Plan& plan = plan_of(Pass::forward, problem_of<Convolution>(x, filter, y, options),
                               {x.dtype(), filter.dtype(), y.dtype()});
    if (!takes_moments(plan.algorithm) || plan.problem.result != y.dtype()) return {};
    ChannelMoments moments(y.size(3), static_cast<int>(shares_of(threads())));
    traced(plan).own->run(as(x, plan.problem.dtype), as(filter, plan.problem.dtype), {}, y, false, &moments);
    return moments.sums();
  }

  void conv2d_input_gradient(const Tensor& dy, const Tensor& filter, const Tensor& dx,
                             const Conv2dOptions& options, bool accumulate) override {
    if (dx.numel() == 0) return;
    const Convolution p = problem_of<Convolution>(dx, filter, dy, options);
    const Plan& plan =
        traced(plan_of(Pass::input_gradient, p, {dy.dtype(), filter.dtype(), dx.dtype()}, accumulate));
    const Tensor source = as(dy, plan.problem.dtype), weights = as(filter, plan.problem.dtype);
    const bool product = plan.algorithm == ConvAlgorithm::product;
    const Tensor out = target(dx, plan, !accumulate || plan.own || product);
    if (product) {
      backend().matmul().matmul(pixels_of(source), rows_of(weights), {}, places_of(p, out),
                                {.accumulate = accumulate && out.is_same(dx)});
    } else if (plan.own) {
      plan.own->run(source, weights, {}, out, accumulate && out.is_same(dx));
    } else if (plan.algorithm == ConvAlgorithm::generic) {
      generic_input_gradient(plan.problem, source, weights, out);
    } else {
      plan.library->run({source.raw(), filter_for(plan, weights).raw(), out.raw()});
    }
    if (!out.is_same(dx)) backend().cast(out, dx, accumulate);
  }

  void conv2d_filter_gradient(const Tensor& x, const Tensor& dy, const Tensor& dfilter,
                              const Conv2dOptions& options, bool accumulate) override {
    if (dfilter.numel() == 0) return;
    const Convolution p = problem_of<Convolution>(x, dfilter, dy, options);
    const Plan& plan = traced(plan_of(Pass::filter_gradient, p, {x.dtype(), dy.dtype(), dfilter.dtype()}));
    const Tensor source = as(x, plan.problem.dtype), gradient = as(dy, plan.problem.dtype);
    const bool generic = plan.algorithm == ConvAlgorithm::generic;
    const Tensor out = target(dfilter, plan, !(generic && accumulate));
    const bool add = accumulate && out.is_same(dfilter);
    switch (plan.algorithm) {
      case ConvAlgorithm::generic:
        generic_filter_gradient(plan.problem, source, gradient, out);
        break;
      case ConvAlgorithm::product:
        backend().matmul().matmul(pixels_of(gradient), places_hit(p, source), {}, rows_of(out),
                                  {.transpose_a = true, .accumulate = add});
        break;
      case ConvAlgorithm::direct:
      case ConvAlgorithm::winograd:
      case ConvAlgorithm::depthwise:
      case ConvAlgorithm::amx:
        plan.own->run(source, gradient, {}, out, add);
        break;
      case ConvAlgorithm::library:
        if (plan.wanted == plan.plain && !add) {
          plan.library->run({source.raw(), gradient.raw(), out.raw()});
        } else {
          const Tensor other =
              workspace({static_cast<Index>(plan.wanted->bytes / sizeof(float))}, DType::f32);
          plan.library->run({source.raw(), gradient.raw(), other.raw()});
          (add ? plan.add : plan.store)->run({other.raw(), out.raw()});
        }
        break;
    }
    if (!out.is_same(dfilter)) backend().cast(out, dfilter, accumulate);
  }
};

}  // namespace

ConvKernels& CpuBackend::conv() { return instance<CpuConv>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
