#include "core/cpu/conv_choice.h"

#include "core/cpu/cpu_features.h"

namespace tandem::cpu {

using onednn::Convolution;
using onednn::Pass;

namespace {

constexpr Index kPanel = 16;  // channels of a panel
constexpr std::array<Index, 2> kOnes{1, 1};

// Own kernels are compiled for AVX2 and better (core/cpu/kernels/conv_tiles.h).
bool has_own_kernels(Level level) { return level >= Level::v3; }

bool is_3x3(const Convolution& p) { return p.kernel_height == 3 && p.kernel_width == 3; }

// ---- what own kernels can compute, whatever the time

bool winograd_can(const Convolution& p) {
  const auto& o = p.options;
  return is_3x3(p) && o.stride == kOnes && o.dilation == kOnes && o.groups == 1 && o.padding[0] <= 2 &&
         o.padding[1] <= 2 && p.channels % kPanel == 0 && p.out_channels % kPanel == 0;
}

// Forward and input gradient. Panels of 16 channels, or, forward, the rows of an image of few channels as
// they are; there are tiles for some distances of pixels (core/cpu/kernels/conv_tiles.h).
bool direct_can(Pass pass, const Convolution& p) {
  const auto& o = p.options;
  const bool forward = pass == Pass::forward;
  const Index in = forward ? p.channels : p.out_channels, out = forward ? p.out_channels : p.channels;
  if (o.groups != 1 || out % kPanel != 0) return false;
  if (in % kPanel == 0) return !forward || o.stride[1] <= 2;
  const Index distance = in * o.stride[1];
  return forward && in <= 3 && o.dilation[1] == 1 && (distance <= 3 || distance == 6);
}

bool direct_filter_can(const Convolution& p) {
  const auto& o = p.options;
  if (o.groups != 1 || p.out_channels % kPanel != 0 || p.out_width > 4096) return false;
  if (p.channels > 4) return p.channels % kPanel == 0;
  return p.kernel_width * p.channels <= 2 * kPanel && o.dilation[1] == 1;
}

// ---- where they are the better choice: bench_convolutions (docs/cpu.md) measures the figures anew

// GFLOP/s of the definition on two Zen 5 cores, forward and filter gradient (without → here), batch 128, from
// 56 pixels on batch 16; the cores do about 580:
//   16→16@28   425 → 400   485 → 375      64→64@56    494 → 725   470 → 690
//   32→32@14   490 → 555   465 → 515     128→128@28   520 → 870   454 → 740
//   64→64@7    480 → 565   405 → 500     256→256@14   552 → 960   476 → 470
//                                        512→512@7    607 → 700   501 → 490
// Below 32 channels the transforms cost more than the products save.
bool winograd_suits(Pass pass, const Convolution& p) {
  if (!winograd_can(p)) return false;
  const Index channels = p.channels * p.out_channels;
  if (channels < 32 * 32 || (pass == Pass::filter_gradient && channels > 128 * 128)) return false;
  // Tiles that stick out of a small image are work for nothing: at most a third of it.
  const bool forward = pass != Pass::input_gradient;
  const Index height = forward ? p.out_height : p.height, width = forward ? p.out_width : p.width;
  const Index covered = (height + 1) / 2 * ((width + 1) / 2) * 4;
  return 2 * covered <= 3 * height * width;
}

// GFLOP/s of one Zen 5 core, forward and input gradient (library → here), batch 128, 3×3 unless said; the
// core does about 290:
//   16→16@28    167 → 226   171 → 219      16→32@28/2  201 → 221    81 → 206
//   32→32@14    199 → 252   180 → 222      32→64@14/2  257 → 233   171 → 246
//   64→64@7     282 → 240   250 → 240      1×1 16→32@28/2  140 → 115    34 → 105
//   7×7 3→64@224/2, batch 16: 162 → 198    1×1 32→64@14/2  155 → 163    73 → 157     1→16@28  163 → 137
// 64 channels and more at stride 1 run at 85 to 95 % of the core in the library.
bool direct_suits(Pass pass, const Convolution& p, DType dtype, int threads) {
  const auto& o = p.options;
  const bool forward = pass == Pass::forward;
  const Index in = forward ? p.channels : p.out_channels, out = forward ? p.out_channels : p.channels;
  // Whole images go to threads: fewer images than threads leave some idle.
  if (!direct_can(pass, p) || p.batch < threads) return false;
  if (in < kPanel)
    return (in == 3 || (in == 1 && dtype != DType::f32)) && o.stride[1] <= 2 && p.kernel_width > 1;
  if (dtype != DType::f32) return true;  // the library would need widened copies
  if (in > 64 || out > 64 || p.height * p.width > 32 * 32) return false;
  const bool few = in * out <= 32 * 32;
  if (forward) return few && p.kernel_height * p.kernel_width > 1;
  return few || o.stride[0] * o.stride[1] > 1;
}

// GFLOP/s of one Zen 5 core (library → here), batch 16 (the first three 128); the core does about 290:
//   3×3  16→16@28  246 → 206    16→32@28/2  216 → 201    32→32@14  188 → 238    64→64@7   201 → 235
//        64→64@56  199 → 240   128→128@28   221 → 240   128→128@56/2  110 → 209  256→256@14  243 → 242
//       256→256@28/2  163 → 223   512→512@14/2  144 → 195   512→512@7  220 → 204
//   7×7   3→64@224/2  112 → 155     3×3 1→16@28  171 → 34
//   1×1  64→64@56   95 → 144   64→256@56  116 → 182   256→64@56  188 → 190   128→512@28  164 → 205
//       512→128@28  207 → 202  256→512@56/2  130 → 196   16→32@28/2  174 → 106   32→64@14/2  212 → 155
// Larger 1×1 gradients are matrix products.
bool direct_filter_suits(const Convolution& p, DType dtype) {
  const auto& o = p.options;
  if (!direct_filter_can(p)) return false;
  if (p.channels <= 4) return p.kernel_width * p.channels >= kPanel;
  if (dtype != DType::f32) return true;  // the library would need widened copies
  if (p.channels < 32) return false;
  if (p.kernel_height * p.kernel_width == 1) return p.channels * p.out_channels >= 64 * 64;
  return o.stride[0] > 1 || p.channels * p.out_channels < 256 * 256;
}

// The own kernel for operands of one dtype of up to 32 bits, where it is the better choice.
std::optional<ConvAlgorithm> own_kernel(Pass pass, const Convolution& p, DType dtype,
                                        const ConvMachine& machine) {
  if (!has_own_kernels(machine.level)) return std::nullopt;
  if (winograd_suits(pass, p)) return ConvAlgorithm::winograd;
  const bool suits = pass == Pass::filter_gradient ? direct_filter_suits(p, dtype)
                                                   : direct_suits(pass, p, dtype, machine.threads);
  return suits ? std::optional(ConvAlgorithm::direct) : std::nullopt;
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
bool library_multiplies_bf16(Pass pass, const Convolution& p, const ConvMachine& machine) {
  if (!machine.library_bf16) return false;
  if (machine.level == Level::amx) return true;
  const Index channels = p.channels * p.out_channels;
  switch (pass) {
    case Pass::forward:
      return true;
    case Pass::input_gradient:
      return is_dense(p) || channels > 32 * 64;
    case Pass::filter_gradient:
      return !is_dense(p) || !is_3x3(p) || channels < 32 * 32 || channels > 128 * 128;
  }
  return true;
}

// From this many elements on the gradient of a 1×1 filter is a matrix product, dyᵀ·x, of the pixels that the
// stride hits. GFLOP/s of one Zen 5 core, own kernel → product: 256→1024@14 203 → 201, 1024→256@14 193 → 216,
// 1024→512@14 198 → 211, 512→2048@7 190 → 233, 2048→512@7 172 → 223, 1024→2048@14/2 168 → 242; 512→256@28 211
// → 212.
constexpr Index kLargePointwise = 128 * 1024;

bool is_empty(const Convolution& p) {
  return p.batch == 0 || p.height == 0 || p.width == 0 || p.channels == 0 || p.out_height == 0 ||
         p.out_width == 0 || p.out_channels == 0 || p.kernel_height == 0 || p.kernel_width == 0;
}

// Of a filter gradient on which no own kernel of 16 bits works, with operands of `dtype`: products where the
// kernel is 1×1 and large, or strided and no own kernel's. oneDNN's kernels for strided 1×1 overrun their
// scratchpads (onednn.cpp), and its others are slower. ms on one Zen 5 core, AVX2, kernel of 1×1 that gathers
// → next one → product of gathered pixels: batch 64, 4→8@28/2 0.026 → 0.017 → 0.022; batch 128, 32→64@14/2
// 0.24 → 0.45 → 0.21; batch 32, 64→128@56/2 6.3 → 17.4 → 3.6.
ConvAlgorithm choose_filter_gradient(const Convolution& p, DType dtype, const ConvMachine& machine) {
  if (is_pointwise(p) && p.out_channels * p.channels >= kLargePointwise) return ConvAlgorithm::product;
  if (dtype == DType::f32) {
    if (const auto own = own_kernel(Pass::filter_gradient, p, dtype, machine)) return *own;
  }
  return is_pointwise(p) && !is_dense(p) ? ConvAlgorithm::product : ConvAlgorithm::library;
}

bool is_f64(const ConvDtypes& dtypes) { return dtypes.a == DType::f64 || dtypes.b == DType::f64; }

// Own kernels widen 16 bits as they read, where the result has their dtype, too.
bool own_kernels_widen(Pass pass, const ConvDtypes& dtypes) {
  return is_16bit(dtypes.a) && dtypes.a == dtypes.b &&
         (pass == Pass::filter_gradient || dtypes.out == dtypes.a);
}

// What the library multiplies.
DType library_operands(const ConvDtypes& dtypes, const ConvMachine& machine) {
  const bool bf16 = dtypes.a == DType::bf16 && dtypes.b == DType::bf16 && machine.library_bf16;
  return bf16 ? DType::bf16 : DType::f32;
}

// The product adds by itself, into f32.
bool product_can(Pass pass, const Convolution& p, const ConvDtypes& dtypes) {
  if (!is_pointwise(p) || pass == Pass::forward) return false;
  return pass == Pass::filter_gradient || (is_dense(p) && dtypes.out == DType::f32);
}

ConvAlgorithm algorithm_for(Pass pass, const Convolution& p, const ConvDtypes& dtypes, bool accumulate,
                            const ConvMachine& machine) {
  if (is_f64(dtypes) || is_empty(p) || !onednn::expressible(p)) return ConvAlgorithm::generic;
  if (own_kernels_widen(pass, dtypes) &&
      !(dtypes.a == DType::bf16 && library_multiplies_bf16(pass, p, machine))) {
    if (const auto own = own_kernel(pass, p, dtypes.a, machine)) return *own;
  }
  const DType operands = library_operands(dtypes, machine);
  if (pass == Pass::filter_gradient) return choose_filter_gradient(p, operands, machine);
  if (accumulate && product_can(pass, p, dtypes)) return ConvAlgorithm::product;
  if (operands != DType::f32) return ConvAlgorithm::library;
  return own_kernel(pass, p, DType::f32, machine).value_or(ConvAlgorithm::library);
}

ConvChoice with_dtypes(ConvAlgorithm algorithm, Pass pass, const ConvDtypes& dtypes, bool accumulate,
                       const ConvMachine& machine) {
  const bool filter = pass == Pass::filter_gradient;
  DType operands = library_operands(dtypes, machine), result = DType::f32;
  switch (algorithm) {
    case ConvAlgorithm::generic:
      operands = result = is_f64(dtypes) ? DType::f64 : DType::f32;
      break;
    case ConvAlgorithm::library:
      if (!filter && !accumulate && operands == DType::bf16 && dtypes.out == DType::bf16)
        result = DType::bf16;
      break;
    case ConvAlgorithm::product:
      break;
    case ConvAlgorithm::direct:
    case ConvAlgorithm::winograd:
      operands = own_kernels_widen(pass, dtypes) ? dtypes.a : DType::f32;
      if (!filter) result = operands;
      break;
  }
  return {algorithm, operands, result};
}

bool can_compute(ConvAlgorithm algorithm, Pass pass, const Convolution& p, const ConvDtypes& dtypes,
                 const ConvMachine& machine) {
  if (algorithm == ConvAlgorithm::generic) return true;
  if (is_f64(dtypes) || is_empty(p) || !onednn::expressible(p)) return false;
  switch (algorithm) {
    case ConvAlgorithm::product:
      return product_can(pass, p, dtypes);
    case ConvAlgorithm::direct:
      return has_own_kernels(machine.level) &&
             (pass == Pass::filter_gradient ? direct_filter_can(p) : direct_can(pass, p));
    case ConvAlgorithm::winograd:
      return has_own_kernels(machine.level) && winograd_can(p);
    default:
      return true;
  }
}

}  // namespace

std::string_view name_of(ConvAlgorithm algorithm) {
  constexpr std::string_view names[] = {"generic", "library", "product", "direct", "winograd"};
  return names[static_cast<std::size_t>(algorithm)];
}

bool is_pointwise(const Convolution& p) {
  return p.kernel_height == 1 && p.kernel_width == 1 && p.options.padding == std::array<Index, 2>{0, 0} &&
         p.options.groups == 1;
}

bool is_dense(const Convolution& p) { return p.options.stride == kOnes; }

ConvMachine conv_machine() { return {level(), onednn::multiplies_bf16(), threads()}; }

ConvChoice choose_convolution(Pass pass, const Convolution& p, const ConvDtypes& dtypes, bool accumulate,
                              const ConvMachine& machine) {
  return with_dtypes(algorithm_for(pass, p, dtypes, accumulate, machine), pass, dtypes, accumulate, machine);
}

std::optional<ConvChoice> convolution_by(ConvAlgorithm algorithm, Pass pass, const Convolution& p,
                                         const ConvDtypes& dtypes, bool accumulate,
                                         const ConvMachine& machine) {
  if (!can_compute(algorithm, pass, p, dtypes, machine)) return std::nullopt;
  return with_dtypes(algorithm, pass, dtypes, accumulate, machine);
}

}  // namespace tandem::cpu
