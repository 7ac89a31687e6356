#include "core/cpu/conv_choice.h"

#include "core/cpu/conv_panels.h"
#include "core/cpu/cpu_features.h"

namespace tandem::cpu {

using onednn::Convolution;
using onednn::Pass;

namespace {

constexpr std::array<Index, 2> kOnes{1, 1};
constexpr Index kPositions = 16;  // of a tile of Winograd's F(2×2, 3×3)

// Own kernels need AVX2 or better (core/cpu/kernels/conv_tiles.h).
bool has_own_kernels(Level level) { return level >= Level::v3; }

// Own kernels multiply pairs of bf16 (core/cpu/kernels/conv_tiles.h).
bool multiplies_pairs(DType dtype, Level level) { return dtype == DType::bf16 && level >= Level::v4_bf16; }

bool is_3x3(const Convolution& p) { return p.kernel_height == 3 && p.kernel_width == 3; }

// ---- capabilities of the own kernels

// Own kernels widen 16-bit operands on load if the result has the same dtype.
bool own_kernels_widen(Pass pass, const ConvDtypes& dtypes) {
  return is_16bit(dtypes.a) && dtypes.a == dtypes.b &&
         (pass == Pass::filter_gradient || dtypes.out == dtypes.a);
}

bool winograd_can(const Convolution& p) {
  const auto& o = p.options;
  return is_3x3(p) && o.stride == kOnes && o.dilation == kOnes && o.groups == 1 && o.padding[0] <= 2 &&
         o.padding[1] <= 2 && p.channels % kPanelChannels == 0 && p.out_channels % kPanelChannels == 0;
}

// Forward and input gradient, with panels of 16 channels or (forward) unpadded rows of an image with few
// channels. Tiles exist only for some pixel distances (core/cpu/kernels/conv_tiles.h).
bool direct_can(Pass pass, const Convolution& p) {
  const auto& o = p.options;
  const bool forward = pass == Pass::forward;
  const Index in = forward ? p.channels : p.out_channels, out = forward ? p.out_channels : p.channels;
  if (o.groups != 1 || out % kPanelChannels != 0) return false;
  if (in % kPanelChannels == 0) return !forward || o.stride[1] <= 2;
  const Index distance = in * o.stride[1];
  return forward && in <= 3 && o.dilation[1] == 1 && (distance <= 3 || distance == 6);
}

bool direct_filter_can(const Convolution& p) {
  const auto& o = p.options;
  if (o.groups != 1 || p.out_channels % kPanelChannels != 0 || p.out_width > 4096) return false;
  if (p.channels > 4) return p.channels % kPanelChannels == 0;
  return p.kernel_width * p.channels <= 2 * kPanelChannels && o.dilation[1] == 1;
}

bool amx_can(const Convolution& p, DType dtype, Level level) {
  return level == Level::amx && is_16bit(dtype) && p.options.groups == 1 &&
         p.channels % kPanelChannels == 0 && p.out_channels % kPanelChannels == 0;
}

// ---- speed rules: bench/CONVOLUTIONS.md has the figures behind every bound

bool is_strided(const Convolution& p) { return !is_dense(p); }

Index channel_pairs(const Convolution& p) { return p.channels * p.out_channels; }

// A filter gradient has 16 sums per thread and channel pair: they must fit in the caches and be reused.
bool winograd_suits(Pass pass, const Convolution& p, DType dtype, const ConvMachine& machine) {
  if (!winograd_can(p)) return false;
  const bool of_input = pass == Pass::input_gradient;
  const Index height = of_input ? p.height : p.out_height, width = of_input ? p.width : p.out_width;
  const Index tiles = (height + 1) / 2 * ((width + 1) / 2), pairs = channel_pairs(p);
  if (pass == Pass::filter_gradient) {
    constexpr Index kMostSums = Index{16} << 20, kFewestTiles = 64;  // of all threads; per thread
    if (machine.threads * kPositions * pairs > kMostSums) return false;
    if (p.batch * tiles < machine.threads * kFewestTiles) return false;
    if (pairs > (machine.level >= Level::v4 ? 256 * 256 : 256 * 512)) return false;
    if (machine.level >= Level::v4 && dtype == DType::f32 && pairs < 16 * 32) return false;
  }
  // Tiles may extend beyond small images by at most a third of their work.
  return 2 * 4 * tiles <= 3 * height * width;
}

// At stride 1 oneDNN reaches 85 to 95 % of peak from 64 channels on. With many channels a seven-pixel tile of
// the direct kernel waits for weights.
bool direct_suits_f32(Pass pass, const Convolution& p, Level level) {
  if (is_pointwise(p) && is_dense(p)) return false;
  const Index channels = channel_pairs(p);
  if (is_dense(p)) return channels <= 32 * 32;
  if (pass == Pass::input_gradient) return channels < 128 * 1024 || level < Level::v4;
  return channels <= 64 * 128 && (!is_pointwise(p) || level < Level::v4 || channels >= 32 * 64);
}

bool direct_suits(Pass pass, const Convolution& p, DType dtype, const ConvMachine& machine) {
  if (!direct_can(pass, p)) return false;
  // Threads divide whole images, so a batch smaller than the team leaves threads idle. 16-bit dense 1×1
  // kernels divide rows instead (core/cpu/kernels/conv_direct.cpp).
  const bool rows = dtype != DType::f32 && is_pointwise(p) && is_dense(p);
  if (p.batch < machine.threads && !rows) return false;
  if (p.channels < kPanelChannels) {
    const Index in = p.channels;
    return (in == 3 || (in == 1 && dtype != DType::f32)) && p.options.stride[1] <= 2 && p.kernel_width > 1;
  }
  if (dtype != DType::f32) return true;  // oneDNN would need widened copies
  return direct_suits_f32(pass, p, machine.level);
}

bool direct_filter_suits_f32(const Convolution& p, Level level) {
  if (is_pointwise(p)) {
    return channel_pairs(p) < 1024 * 1024 &&
           (level >= Level::v4 ? is_strided(p) || channel_pairs(p) >= 64 * 64 : channel_pairs(p) > 128 * 256);
  }
  return is_strided(p) || (p.channels >= 32 && channel_pairs(p) <= 256 * 256) || level < Level::v4;
}

bool direct_filter_suits(const Convolution& p, DType dtype, Level level) {
  if (!direct_filter_can(p)) return false;
  if (p.channels <= 4) return p.kernel_width * p.channels >= kPanelChannels;
  return dtype != DType::f32 || direct_filter_suits_f32(p, level);  // oneDNN would need widened copies
}

// oneDNN reads f32 in place, own kernels copy; with few channels the copy costs as much as the products.
bool depthwise_suits(Pass pass, const Convolution& p, DType dtype) {
  if (dtype != DType::f32) return true;
  const bool few_taps = p.kernel_height * p.kernel_width <= 9;
  if (pass == Pass::filter_gradient) return !few_taps || p.channels > 32;
  if (pass == Pass::forward) return !few_taps || p.channels >= 128;
  return !few_taps && is_dense(p);
}

// The kernels copy their input. Where each pixel is used once, that takes as long as the products of bf16:
// oneDNN reads the images of 1×1 kernels in place. The bf16 gradient of a wide 1×1 filter is a matrix
// product. The other kernels for f16 multiply in f32, which takes longer except where there are few products.
bool amx_suits(Pass pass, const Convolution& p, DType dtype, const ConvMachine& machine) {
  constexpr Index kWide = 128, kNarrowImage = 7;  // channels, pixels
  constexpr Index kMostSums = Index{64} << 20;    // of all threads
  if (!amx_can(p, dtype, machine.level)) return false;
  const Index pairs = channel_pairs(p);
  if (pass == Pass::filter_gradient && machine.threads * pairs * p.kernel_height * p.kernel_width > kMostSums)
    return false;
  if (dtype == DType::f16) return pass == Pass::forward || !is_pointwise(p) || is_dense(p) || pairs > 32 * 64;
  if (pass == Pass::filter_gradient) return !is_pointwise(p) || pairs < 1024 * 1024;
  if (is_pointwise(p) && is_dense(p)) return false;
  return pass == Pass::input_gradient || is_dense(p) || p.channels < kWide ||
         (!is_pointwise(p) && p.out_width <= kNarrowImage);
}

// The own kernel for operands of one f32 or 16-bit dtype, if it is faster.
std::optional<ConvAlgorithm> own_kernel(Pass pass, const Convolution& p, DType dtype,
                                        const ConvMachine& machine) {
  if (!has_own_kernels(machine.level)) return std::nullopt;
  if (is_depthwise(p))
    return depthwise_suits(pass, p, dtype) ? std::optional(ConvAlgorithm::depthwise) : std::nullopt;
  if (amx_suits(pass, p, dtype, machine)) return ConvAlgorithm::amx;
  // Winograd needs f32 sums; bf16 pairs do about as many products in the same time.
  if (!multiplies_pairs(dtype, machine.level) && winograd_suits(pass, p, dtype, machine))
    return ConvAlgorithm::winograd;
  const bool suits = pass == Pass::filter_gradient ? direct_filter_suits(p, dtype, machine.level)
                                                   : direct_suits(pass, p, dtype, machine);
  return suits ? std::optional(ConvAlgorithm::direct) : std::nullopt;
}

// Whether bf16 is left to oneDNN or, for the gradient of a wide 1×1 filter, to the matrix product; both
// multiply bf16 in hardware. With AVX512-BF16 own kernels use the same instructions, and oneDNN is faster
// where it reaches 85 to 95 % of peak.
bool leaves_bf16_to_library(Pass pass, const Convolution& p, const ConvMachine& machine) {
  if (!machine.library_bf16 || is_depthwise(p)) return false;
  if (machine.level == Level::amx) {
    const bool line =
        pass == Pass::forward && p.channels == 1 && is_dense(p);  // no tiles in the library, either
    return !line && !amx_suits(pass, p, DType::bf16, machine);
  }
  constexpr Index kWide = 32;  // pixels
  if (p.channels % kPanelChannels != 0 || p.out_channels % kPanelChannels != 0) {
    // There are no panels, so channels cannot be paired.
    const bool strided_line = pass == Pass::forward && p.channels == 1 && is_strided(p);
    return !strided_line || p.out_width < kWide;
  }
  const Index channels = channel_pairs(p);
  const bool wide_pointwise = is_pointwise(p) && channels >= 1024 * 1024;
  if (pass == Pass::filter_gradient) return wide_pointwise;
  if (is_dense(p)) return !wide_pointwise && channels > (is_pointwise(p) ? 0 : 32 * 32);
  return pass == Pass::forward && channels > 64 * 128;
}

bool is_empty(const Convolution& p) {
  return p.batch == 0 || p.height == 0 || p.width == 0 || p.channels == 0 || p.out_height == 0 ||
         p.out_width == 0 || p.out_channels == 0 || p.kernel_height == 0 || p.kernel_width == 0;
}

// Filter gradients without a 16-bit own kernel, with operands of `dtype`. Wide or strided 1×1 kernels use a
// matrix product: oneDNN's strided 1×1 kernels overrun their scratchpads (onednn.cpp), its others are slower.
ConvAlgorithm choose_filter_gradient(const Convolution& p, DType dtype, const ConvMachine& machine) {
  if (dtype == DType::f32) {
    if (const auto own = own_kernel(Pass::filter_gradient, p, dtype, machine)) return *own;
  }
  const bool wide = channel_pairs(p) >= 128 * 1024;
  return is_pointwise(p) && (wide || is_strided(p)) ? ConvAlgorithm::product : ConvAlgorithm::library;
}

bool is_f64(const ConvDtypes& dtypes) { return dtypes.a == DType::f64 || dtypes.b == DType::f64; }

// Operand dtype for oneDNN.
DType library_operands(const ConvDtypes& dtypes, const ConvMachine& machine) {
  const bool bf16 = dtypes.a == DType::bf16 && dtypes.b == DType::bf16 && machine.library_bf16;
  return bf16 ? DType::bf16 : DType::f32;
}

// Whole images: always. Pixels: filter gradients, and f32 input gradients at stride 1.
bool product_can(Pass pass, const Convolution& p, const ConvDtypes& dtypes) {
  if (covers_image(p)) return true;
  if (!is_pointwise(p) || pass == Pass::forward) return false;
  return pass == Pass::filter_gradient || (is_dense(p) && dtypes.out == DType::f32);
}

ConvAlgorithm algorithm_for(Pass pass, const Convolution& p, const ConvDtypes& dtypes, bool accumulate,
                            const ConvMachine& machine) {
  if (is_f64(dtypes) || is_empty(p) || !onednn::expressible(p)) return ConvAlgorithm::generic;
  if (covers_image(p)) return ConvAlgorithm::product;
  if (own_kernels_widen(pass, dtypes) &&
      !(dtypes.a == DType::bf16 && leaves_bf16_to_library(pass, p, machine))) {
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
    case ConvAlgorithm::product:
      if (!filter && !accumulate && operands == DType::bf16 && dtypes.out == DType::bf16)
        result = DType::bf16;
      break;
    case ConvAlgorithm::direct:
    case ConvAlgorithm::winograd:
    case ConvAlgorithm::depthwise:
    case ConvAlgorithm::amx:
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
    case ConvAlgorithm::depthwise:
      return has_own_kernels(machine.level) && is_depthwise(p);
    case ConvAlgorithm::amx:
      return own_kernels_widen(pass, dtypes) && amx_can(p, dtypes.a, machine.level);
    default:
      return true;
  }
}

}  // namespace

std::string_view name_of(ConvAlgorithm algorithm) {
  constexpr std::string_view names[] = {"generic",  "library",   "product", "direct",
                                        "winograd", "depthwise", "amx"};
  return names[static_cast<std::size_t>(algorithm)];
}

bool is_own(ConvAlgorithm algorithm) { return algorithm >= ConvAlgorithm::direct; }
bool takes_moments(ConvAlgorithm algorithm) {
  return algorithm == ConvAlgorithm::direct || algorithm == ConvAlgorithm::winograd;
}

bool is_pointwise(const Convolution& p) {
  return p.kernel_height == 1 && p.kernel_width == 1 && p.options.padding == std::array<Index, 2>{0, 0} &&
         p.options.groups == 1;
}

bool covers_image(const Convolution& p) {
  return p.kernel_height * p.kernel_width > 1 && p.kernel_height == p.height && p.kernel_width == p.width &&
         p.out_height == 1 && p.out_width == 1 && p.options.padding == std::array<Index, 2>{0, 0} &&
         p.options.groups == 1;
}

bool is_dense(const Convolution& p) { return p.options.stride == kOnes; }

bool is_depthwise(const Convolution& p) {
  return p.options.groups > 1 && p.options.groups == p.channels && p.out_channels == p.channels;
}

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
