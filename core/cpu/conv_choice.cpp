#include "core/cpu/conv_choice.h"

#include "core/cpu/conv_panels.h"
#include "core/cpu/cpu_features.h"

namespace tandem::cpu {

using onednn::Convolution;
using onednn::Pass;

namespace {

constexpr std::array<Index, 2> kOnes{1, 1};
constexpr Index kPositions = 16;  // of a tile of Winograd's F(2×2, 3×3)

// Own kernels are compiled for AVX2 and better (core/cpu/kernels/conv_tiles.h).
bool has_own_kernels(Level level) { return level >= Level::v3; }

// Own kernels multiply pairs of bf16 (core/cpu/kernels/conv_tiles.h).
bool multiplies_pairs(DType dtype, Level level) { return dtype == DType::bf16 && level >= Level::v4_bf16; }

bool is_3x3(const Convolution& p) { return p.kernel_height == 3 && p.kernel_width == 3; }

// ---- what own kernels can compute, whatever the time

bool winograd_can(const Convolution& p) {
  const auto& o = p.options;
  return is_3x3(p) && o.stride == kOnes && o.dilation == kOnes && o.groups == 1 && o.padding[0] <= 2 &&
         o.padding[1] <= 2 && p.channels % kPanelChannels == 0 && p.out_channels % kPanelChannels == 0;
}

// Forward and input gradient. Panels of 16 channels, or, forward, the rows of an image of few channels as
// they are; there are tiles for some distances of pixels (core/cpu/kernels/conv_tiles.h).
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

// ---- where they are the better choice
//
// bench_convolutions (docs/cpu.md) measures the figures anew. They are GFLOP/s of two Zen 5 cores by the
// definition's FLOPs, batch 128, at 56 pixels and from 256 channels on 16. The cores do about 530 in f32,
// 1050 with bf16 products, and at level v3, here AVX2, 265.

bool is_strided(const Convolution& p) { return !is_dense(p); }

Index channel_pairs(const Convolution& p) { return p.channels * p.out_channels; }

// f32, the better of library and direct → winograd; forward, input gradient, filter gradient:
//   AVX-512  16→16@28   401 → 482   392 → 483   458 → 391    AVX2   235 → 338   233 → 336   202 → 304
//            32→32@14   468 → 714   468 → 719   401 → 517           221 → 389   224 → 395   214 → 308
//            64→64@7    493 → 613   469 → 620   394 → 507           240 → 331   239 → 339   224 → 312
//            64→64@56   494 → 725   470 → 690                       248 → 484   249 → 487   234 → 438
//           256→256@14  510 → 922   511 → 915   461 → 822           253 → 507   258 → 510   241 → 502
//           512→512@7   488 → 478   487 → 539   462 → 283           228 → 283   268 → 323
// 16 bits are widened on the way and gain as much; f16 filter gradient 16→16@28 418 → 480.
// Filter gradients by one AVX-512 core: 16→16@28 253 → 199, 16→32@14 205 → 214, @64 152 → 237, @150 163 →
// 261. A filter gradient has 16 sums a thread for every pair of channels, which are to stay small and be
// added to often; with many the sums leave the caches. Two Zen 3 cores, AVX2, direct → winograd: 256→512@14
// 180 → 219, 512→512@14 177 → 183, @7 177 → 130, batch 4 180 → 94.
bool winograd_suits(Pass pass, const Convolution& p, DType dtype, const ConvMachine& machine) {
  if (!winograd_can(p)) return false;
  const bool of_input = pass == Pass::input_gradient;
  const Index height = of_input ? p.height : p.out_height, width = of_input ? p.width : p.out_width;
  const Index tiles = (height + 1) / 2 * ((width + 1) / 2), pairs = channel_pairs(p);
  if (pass == Pass::filter_gradient) {
    constexpr Index kMostSums = Index{16} << 20, kFewestTiles = 64;  // of all threads, and of each
    if (machine.threads * kPositions * pairs > kMostSums) return false;
    if (p.batch * tiles < machine.threads * kFewestTiles) return false;
    if (pairs > (machine.level >= Level::v4 ? 256 * 256 : 256 * 512)) return false;
    if (machine.level >= Level::v4 && dtype == DType::f32 && pairs < 16 * 32) return false;
  }
  // Tiles that stick out of a small image are work for nothing: at most a third of it.
  return 2 * 4 * tiles <= 3 * height * width;
}

// f32, forward and input gradient (library → here), 3×3 unless said:
//   AVX-512  16→32@28/2  292 → 386   153 → 395   1×1  179 → 112    29 →  97   2×2/2  16→32@64  127 → 307
//            32→64@14/2  270 → 374   229 → 438   1×1  203 → 210    53 → 162          32→64@32  207 → 347
//           128→128@56/2 219 → 211    one core 206 → 220            7×7/2  3→64@224  444 → 478
//           256→256@28/2 468 → 447   419 → 475   1×1 512→1024@28/2 421 → 394   394 → 408
//   AVX2     16→32@28/2  158 → 215   141 → 223   1×1   47 → 119    31 →  91   2×2/2  16→32@64  130 → 206
//            32→64@14/2  171 → 192   167 → 198   1×1  116 → 154    66 →  99          64→128@16 193 → 211
//           128→128@56/2 241 → 228   220 → 239   1×1 512→1024@28/2 231 → 208   196 → 204
// At stride 1 the library runs at 85 to 95 % of the cores from 64 channels on. With the filters of many
// channels an own tile of seven pixels waits for weights: one Xeon core (Emerald Rapids), batch 8, input
// gradients library → here 1×1 256→512@56/2 120 → 90, 512→1024@28/2 124 → 114, 1024→2048@14/2 100 → 86, 3×3
// 256→256@28/2 120 → 130, 512→512@14/2 118 → 80.
bool direct_suits_f32(Pass pass, const Convolution& p, Level level) {
  if (is_pointwise(p) && is_dense(p)) return false;
  const Index channels = channel_pairs(p);
  if (is_dense(p)) return channels <= 32 * 32;
  if (pass == Pass::input_gradient) return channels < 128 * 1024 || level < Level::v4;
  return channels <= 64 * 128 && (!is_pointwise(p) || level < Level::v4 || channels >= 32 * 64);
}

bool direct_suits(Pass pass, const Convolution& p, DType dtype, const ConvMachine& machine) {
  if (!direct_can(pass, p)) return false;
  // Whole images go to threads, and fewer images than threads leave some idle; but 16-bit pixels under a
  // dense 1×1 kernel are cut into rows (core/cpu/kernels/conv_direct.cpp).
  const bool rows = dtype != DType::f32 && is_pointwise(p) && is_dense(p);
  if (p.batch < machine.threads && !rows) return false;
  if (p.channels < kPanelChannels) {
    const Index in = p.channels;
    return (in == 3 || (in == 1 && dtype != DType::f32)) && p.options.stride[1] <= 2 && p.kernel_width > 1;
  }
  if (dtype != DType::f32) return true;  // the library would need widened copies
  return direct_suits_f32(pass, p, machine.level);
}

// f32 (library or product → here), 3×3 unless said:
//   AVX-512  16→16@28   458 → 362   16→32@28/2 308 → 326   32→64@14/2  236 → 340   128→128@56/2 103 → 201
//           256→256@28/2 275 → 439  512→512@7  462 → 429   7×7/2 3→64@224 291 → 295   1→16@28  205 → 55
//       1×1  64→64@56   237 → 256   256→64@56  157 → 154   512→256@28   394 → 409   1024→512@14 392 → 413
//            16→32@28/2  94 → 116    32→64@14/2 134 → 153  1024→2048@14/2 445 → 432  512→2048@7 421 → 420
//   AVX2     16→32@28/2 152 → 187   32→64@14/2 146 → 208   128→128@56/2 132 → 223   512→512@7   201 → 241
//       1×1  64→64@56   185 → 178   256→64@56  225 → 190    64→256@56   235 → 199   512→256@28  216 → 216
//          1024→256@14  210 → 221   256→1024@14 222 → 213   512→2048@7  245 → 228
//            16→32@28/2 113 →  96    32→64@14/2 144 → 117   512→1024@28/2 229 → 227
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
  return dtype != DType::f32 || direct_filter_suits_f32(p, level);  // the library would need widened copies
}

// Depthwise, f32 at level v3, one Zen 3 core, images in the third cache, GFLOP/s (library → here); forward,
// input gradient, filter gradient:
//   3×3   16@112    28 → 20     30 → 18     25 → 21       5×5    72@56/2  15 → 16    13 → 10   3.3 → 16
//         64@112/2  10 → 8       7 → 4      11 → 13             120@28    24 → 24    23 → 22   4.3 → 32
//         72@56     22 → 14     24 → 14     10 → 19             672@20    32 → 44    31 → 39   5.0 → 34
//        240@28/2    5 → 8       9 → 6       8 → 10             672@20/2  10 → 14    16 → 13   3.0 → 13
//        480@14     13 → 16     15 → 18      9 → 17             960@10    21 → 27    22 → 26   3.1 → 18
//        672@14     18 → 17     22 → 19     11 → 17
// The library reads f32 where it lies; a copy of few channels costs as much as their products. 16 bits, which
// it would need widened, are 10 to 90 % faster here.
bool depthwise_suits(Pass pass, const Convolution& p, DType dtype) {
  if (dtype != DType::f32) return true;
  const bool few_taps = p.kernel_height * p.kernel_width <= 9;
  if (pass == Pass::filter_gradient) return !few_taps || p.channels > 32;
  if (pass == Pass::forward) return !few_taps || p.channels >= 128;
  return !few_taps && is_dense(p);
}

// The own kernel for operands of one dtype of up to 32 bits, where it is the better choice.
std::optional<ConvAlgorithm> own_kernel(Pass pass, const Convolution& p, DType dtype,
                                        const ConvMachine& machine) {
  if (!has_own_kernels(machine.level)) return std::nullopt;
  if (is_depthwise(p))
    return depthwise_suits(pass, p, dtype) ? std::optional(ConvAlgorithm::depthwise) : std::nullopt;
  // Winograd's sums need floats: pairs do about as many products in that time.
  if (!multiplies_pairs(dtype, machine.level) && winograd_suits(pass, p, dtype, machine))
    return ConvAlgorithm::winograd;
  const bool suits = pass == Pass::filter_gradient ? direct_filter_suits(p, dtype, machine.level)
                                                   : direct_suits(pass, p, dtype, machine);
  return suits ? std::optional(ConvAlgorithm::direct) : std::nullopt;
}

// Whether bf16 is the library's or, in a gradient of a wide 1×1 filter, the product's, which multiply it in
// hardware. With AMX the library is faster by several times; without bf16 products it is not asked. With
// AVX512-BF16 own kernels do the same products (library or product → own), and what is not theirs is at 85 to
// 95 % of the cores in the library:
//   filter gradient  16→16@28  479 → 699   16→32@28/2 267 → 637   32→32@14  558 → 718
//                    64→64@7   486 → 651   64→64@56   346 → 411  128→128@28 830 → 816
//                   256→256@14 830 → 890  512→512@7   576 → 661
//               1×1  64→64@56  502 → 535  512→128@28  577 → 661 1024→512@14 709 → 800
//                  2048→512@7  831 → 828   32→64@14/2 210 → 224 1024→2048@14/2 874 → 702
//   input gradient   16→16@28  707 → 752   32→32@14   849 → 914   64→64@7   844 → 841
//                   128→128@28 978 → 934   16→32@28/2 231 → 533   32→64@14/2 391 → 743
//                   256→256@28/2 847 → 932
//               1×1  16→32@28/2 63 → 117   64→64@56   866 → 566  512→2048@7 647 → 839
//   forward          16→16@28  708 → 739   32→32@14   879 → 925   64→64@7   904 → 822
//                   128→128@28 987 → 936   16→32@28/2 761 → 776   32→64@14/2 614 → 825
//                   128→128@56/2 425 → 411
//             2×2/2  16→32@64  286 → 495   64→128@16  492 → 761
//               1×1  64→64@56  866 → 554  2048→512@7  718 → 798
// Forward of one channel and stride 2, one core: 1→16@64 69 → 77, @128 62 → 69, @300 35 → 75. Input gradients
// of wide images seem slower here alone, 16→32@64 370 → 314, but not in a step: 1.005 and 1.009 of
// ssd_small's. In its filter gradients the library's threads wait for each other by spinning: beside another
// busy process some take hundreds of times as long.
bool leaves_bf16_to_library(Pass pass, const Convolution& p, const ConvMachine& machine) {
  if (!machine.library_bf16 || is_depthwise(p)) return false;
  if (machine.level == Level::amx) return true;
  constexpr Index kWide = 32;  // pixels
  if (p.channels % kPanelChannels != 0 || p.out_channels % kPanelChannels != 0) {
    // No panels to pair up.
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

// Of a filter gradient on which no own kernel of 16 bits works, with operands of `dtype`: products where the
// kernel is 1×1 and wide or strided and no own kernel's. oneDNN's kernels for strided 1×1 overrun their
// scratchpads (onednn.cpp), and its others are slower.
ConvAlgorithm choose_filter_gradient(const Convolution& p, DType dtype, const ConvMachine& machine) {
  if (dtype == DType::f32) {
    if (const auto own = own_kernel(Pass::filter_gradient, p, dtype, machine)) return *own;
  }
  const bool wide = channel_pairs(p) >= 128 * 1024;
  return is_pointwise(p) && (wide || is_strided(p)) ? ConvAlgorithm::product : ConvAlgorithm::library;
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

// Of pixels: of a gradient, that of an image only at stride 1 and in f32. Of whole images: any.
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
    default:
      return true;
  }
}

}  // namespace

std::string_view name_of(ConvAlgorithm algorithm) {
  constexpr std::string_view names[] = {"generic", "library", "product", "direct", "winograd", "depthwise"};
  return names[static_cast<std::size_t>(algorithm)];
}

bool is_own(ConvAlgorithm algorithm) { return algorithm >= ConvAlgorithm::direct; }

bool is_pointwise(const Convolution& p) {
  return p.kernel_height == 1 && p.kernel_width == 1 && p.options.padding == std::array<Index, 2>{0, 0} &&
         p.options.groups == 1;
}

// GFLOP/s of two Zen 5 cores, the better of library and direct → product; forward, input gradient, filter
// gradient, batch 64, of the last batch 16:
//   AVX-512 f32   128→1@4k4  2.5 → 10    5.3 → 11   1.7 → 6.7    128→112@4k4  42 → 165    46 → 156   109 →
//   154
//           bf16             3.0 → 6.6   9.9 → 20   1.0 → 16                  59 → 338    75 → 312   102 →
//           286 f32   128→100@4k4 29 → 144    45 → 155   35 → 148    512→256@7k7  36 → 104   105 → 115    46
//           → 68 bf16              47 → 245    71 → 293   27 → 266                 49 → 201   118 → 103    46
//           → 101
//   AVX2    f32   128→112@4k4 45 → 155    28 → 89    59 → 90     512→256@7k7  22 → 83    9.7 → 83     25 → 75
// 16 bits that are widened gain as much as f32.
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
