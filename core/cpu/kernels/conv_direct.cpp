#include "core/cpu/kernels/conv_direct.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/cpu/conv_panels.h"
#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/amx.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/conv_tiles.h"
#include "core/cpu/kernels/shares.h"
#include "core/cpu/packed_weights.h"
#include "core/kernel_cache.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Convolution;
using onednn::Pass;

#ifdef TANDEM_OWN_CONVOLUTIONS

namespace {

// Conversion of storage to panel elements: `count` channels, or those of one panel; and transposition of
// filter lines: to[i] is the element with channels from[i], from[i + step]….
template <class S>
void copy_run(const S* from, float* to, Index count) {
  widen_block(from, to, count);
}
template <class S>
void copy_panel(const S* from, float* to) {
  store(to, load(from));
}
template <class S>
void gather_elements(const S* from, Index, float* to, Index count) {
  widen_block(from, to, count);
}

#if defined(TANDEM_SIMD_BF16_PAIRS)
void copy_run(const BFloat16* from, std::uint32_t* to, Index count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(BFloat16));
}
void copy_panel(const BFloat16* from, std::uint32_t* to) {
  std::memcpy(to, from, kPanelChannels * sizeof(BFloat16));
}
void gather_elements(const BFloat16* from, Index step, std::uint32_t* to, Index count) {
  for (Index i = 0; i < count; i += kLanes) store_pairs(to + i, load_pairs(from + i, from + i + step));
}
#endif

// S is the storage type of images and filter.
template <class S, class Products>
class DirectForward final : public DirectConvolution {
  using Element = typename Products::Element;

 public:
  DirectForward(Pass pass, const Convolution& p)
      : pass_(pass),
        p_(p),
        panels_(conv_panels(pass, p, Products::kDepth)),
        vectors_(tile_vectors(panels_.out.channels)),
        tiles_(tile_set<Products>(vectors_, panels_.pixel_step)),
        layout_(
            layout_id(KernelKey(1, Products::kDepth, pass, p.out_channels, p.kernel_height, p.kernel_width,
                                p.channels, p.options.stride[0], p.options.stride[1], p.options.padding[0],
                                p.options.padding[1], p.options.dilation[0], p.options.dilation[1]))) {
    ensure(tiles_.tiles[0], "conv2d", "no tile for pixels {} elements apart: {}", panels_.pixel_step,
           to_string(p));
    for (const PixelClass& c : panels_.classes) {
      if (turns_of(c) > 0) shares_ += panels_.out.channels / width();
    }
  }

  void run(const Tensor& in, const Tensor& filter, const Tensor& bias, const Tensor& out, bool accumulate,
           ChannelMoments* moments) const override {
    const PackedWeights weights(filter, layout_, static_cast<std::size_t>(panels_.weights) * sizeof(Element),
                                [&](void* to) { pack(filter.data<S>(), static_cast<Element*>(to)); });
    // Elements and sums have the same size.
    static_assert(sizeof(Element) == sizeof(float));
    const Index panels = panels_.size() + kLanes, row = kInPlace ? 0 : panels_.out.width * width();
    const int team = threads();
    const Tensor memory = workspace<float>({team, panels + row});
    const Work work{static_cast<const Element*>(weights.raw()), bias.defined() ? bias.data<float>() : nullptr,
                    accumulate, moments};
    const Index image = panels_.in.height * panels_.in.width * panels_.in.channels;
    const Index result = panels_.out.height * panels_.out.width * panels_.out.channels;
    const Index shares = shares_of(team);
    over_shares(team, shares, [&](int thread) {
      float* mine = memory.data<float>() + thread * (panels + row);
      auto* panel = static_cast<Element*>(static_cast<void*>(mine));
      std::fill_n(panel, panels, Element{});  // padding; images overwrite only the interior
      return [&, mine, panel](Index share) {
        const Range images = part_of(p_.batch, share, shares);
        for (Index n = images.first; n < images.last; ++n) {
          copy_image(in.data<S>() + n * image, panel);
          Shares ahead;
          if (n + 1 < images.last) ahead = {bytes_of(in.data<S>() + (n + 1) * image, image), shares_};
          for (const PixelClass& c : panels_.classes)
            compute(work, static_cast<int>(share), c, panel, mine + panels, out.data<S>() + n * result,
                    ahead);
        }
      };
    });
  }

 private:
  // f32 sums are stored in place; other dtypes are narrowed from a row buffer.
  static constexpr bool kInPlace = std::is_same_v<S, float>;

  // Arguments common to all images.
  struct Work {
    const Element* weights;
    const float* bias;  // may be null
    bool accumulate;
    ChannelMoments* moments;  // may be null
  };

  // Output channels per tile.
  Index width() const { return vectors_ * kLanes; }

  // Inner-loop iterations over one row of the class; 0 for a class without taps.
  Index turns_of(const PixelClass& c) const {
    return c.count[0] * tiles_.count(c.count[1]) * (panels_.weights_of(c, width()) / width());
  }

  // Packed filter per pixel class: [block of output channels][input panel][tap][element][width].
  void pack(const S* filter, Element* to) const {
    const Index kw = p_.kernel_width, inner = p_.channels;
    const Index line = p_.kernel_height * kw * inner;  // distance between outer channels of the filter
    const bool forward = pass_ == Pass::forward;
    for (const PixelClass& c : panels_.classes) {
      const Index groups = (panels_.out.channels + width() - 1) / width();
      parallel_for(panels_.weights >= 64 * 64, groups, [&](Index group) {
        const Index first = group * width();
        Element* lines = to + c.weights + panels_.weights_of(c, first);
        for (Index block = 0; block < panels_.blocks; ++block) {
          const Index channel = block * kPanelChannels;
          for (const auto& tap : c.kernel) {
            const S* at = filter + (tap[0] * kw + tap[1]) * inner;
            if (forward) {
              turn_lines(at + first * line + channel, line, lines);
            } else {
              for (Index r = 0; r < panels_.run; ++r)
                gather_elements(at + (channel + r * Products::kDepth) * line + first, line,
                                lines + r * width(), width());
            }
            lines += panels_.run * width();
          }
        }
      });
    }
  }

  // Transposes to[r][v] = from[v][r]: the contiguous inputs of `width` outputs under one tap.
  void turn_lines(const S* from, Index line, Element* to) const {
    Element held[kLanes][kLanes];
    for (Index v = 0; v < width(); v += kLanes) {
      for (Index r = 0; r < panels_.run; r += kLanes) {
        const Index count = std::min<Index>(kLanes, panels_.run - r);
        for (Index i = 0; i < kLanes; ++i)
          copy_run(from + (v + i) * line + r * Products::kDepth, held[i], count * Products::kDepth);
        for (Index j = 0; j < count; ++j) {
          for (Index i = 0; i < kLanes; ++i) to[(r + j) * width() + v + i] = held[i][j];
        }
      }
    }
  }

  void copy_image(const S* image, Element* panel) const {
    const auto& in = panels_.in;
    const Index rows = std::min(in.height, panels_.height - panels_.padding[0]);
    const Index columns = std::min(in.width, panels_.width - panels_.padding[1]);
    for (Index y = 0; y < rows; ++y) {
      const S* row = image + y * in.width * in.channels;
      Element* to = panel + ((y + panels_.padding[0]) * panels_.width + panels_.padding[1]) * panels_.pixel;
      if (panels_.blocks == 1) {
        copy_run(row, to, columns * in.channels);
        continue;
      }
      for (Index block = 0; block < panels_.blocks; ++block, to += panels_.block_size) {
        for (Index x = 0; x < columns; ++x)
          copy_panel(row + x * in.channels + block * kPanelChannels, to + x * panels_.pixel);
      }
    }
  }

  void compute(const Work& work, int part, const PixelClass& c, const Element* panel, float* sums, S* image,
               Shares& ahead) const {
    const Taps taps{c.taps, panels_.blocks, panels_.block_size, panels_.run};
    const auto& out = panels_.out;
    const Index pixel_step = c.step[1] * out.channels, sum_step = kInPlace ? pixel_step : width();
    const Index block = panels_.weights_of(c, width()), turns = turns_of(c);
    for (Index first = 0; first < out.channels; first += width()) {
      const Element* weights = work.weights + c.weights + panels_.weights_of(c, first);
      // The weights of the next channels may lie outside the caches.
      const bool last = first + width() == out.channels;
      Prefetch requests(bytes_of(weights + block, last ? 0 : block), turns > 0 ? ahead.next() : Bytes{},
                        turns);
      const float* bias = work.bias ? work.bias + first : nullptr;
      for (Index y = 0; y < c.count[0]; ++y) {
        S* pixels = image + ((c.first[0] + y * c.step[0]) * out.width + c.first[1]) * out.channels + first;
        if constexpr (kInPlace) sums = pixels;
        tiles_.run(taps, c.count[1], panel + y * panels_.row_step, panels_.pixel_step, weights, bias,
                   kInPlace && work.accumulate, sums, sum_step, requests);
        if constexpr (!kInPlace) store_row(sums, c.count[1], work.accumulate, pixels, pixel_step);
        // Moments are taken over several rows at a time, while they are in the caches.
        const Index rows = y % rows_of_moments_ + 1, line = out.width * out.channels;
        if (work.moments && (rows == rows_of_moments_ || y + 1 == c.count[0]))
          work.moments->add(part, pixels - (rows - 1) * line, rows, line, c.count[1], out.channels, first,
                            width());
      }
    }
  }

  void store_row(const float* sums, Index count, bool accumulate, S* pixels, Index step) const {
    for (Index i = 0; i < count; ++i, pixels += step) {
      for (Index v = 0; v < width(); v += kLanes, sums += kLanes) {
        const Vec value = load(sums);
        store(pixels + v, accumulate ? load(pixels + v) + value : value);
      }
    }
  }

  Pass pass_;
  Convolution p_;
  ConvPanels panels_;
  Index vectors_;  // vectors per tile
  TileSet<Products> tiles_;
  std::uint32_t layout_;
  Index shares_ = 0;  // parts into which the prefetch of the next image is split
  Index rows_of_moments_ = std::max<Index>(1, 64 / std::max<Index>(panels_.out.width, 1));
};

template <class S>
using DirectFloats = DirectForward<S, FloatProducts>;

// For a 1×1 kernel with stride 1 an image is one long row of pixels. This splits it into equal rows whose
// panels fit in L2, if such a split exists.
Convolution with_rows_for_images(Pass pass, Convolution p) {
  constexpr Index kRowFloats = 128 * 1024, kLongest = 56, kShortest = 28;
  const auto& o = p.options;
  if (p.kernel_height * p.kernel_width != 1 || o.padding != std::array<Index, 2>{0, 0} ||
      o.stride != std::array<Index, 2>{1, 1})
    return p;
  const Index pixels = p.batch * p.height * p.width;
  const Index most = std::min(kLongest, kRowFloats / (pass == Pass::forward ? p.channels : p.out_channels));
  for (Index width = most; width >= kShortest; --width) {
    if (pixels % width != 0) continue;
    p.batch = pixels / width;
    p.height = p.out_height = 1;
    p.width = p.out_width = width;
    break;
  }
  return p;
}

}  // namespace

std::unique_ptr<DirectConvolution> own_convolution(ConvAlgorithm algorithm, Pass pass, const Convolution& p) {
  if (algorithm == ConvAlgorithm::winograd) return detail::winograd_convolution(pass, p);
  if (algorithm == ConvAlgorithm::depthwise) return detail::depthwise_convolution(pass, p);
#if defined(TANDEM_AMX)
  if (algorithm == ConvAlgorithm::amx)
    return pass == Pass::filter_gradient ? detail::amx_filter_gradient(p) : detail::amx_convolution(pass, p);
#endif
  if (pass == Pass::filter_gradient) return detail::direct_filter_gradient(p);
  const Convolution rows = p.dtype == DType::f32 ? p : with_rows_for_images(pass, p);
#if defined(TANDEM_SIMD_BF16_PAIRS)
  if (p.dtype == DType::bf16 && p.channels % kPanelChannels == 0)
    return std::make_unique<DirectForward<BFloat16, PairProducts>>(pass, rows);
#endif
  return detail::make_for_storage<DirectFloats>(p.dtype, pass, rows);
}

#else

std::unique_ptr<DirectConvolution> own_convolution(ConvAlgorithm, Pass, const Convolution& p) {
  throw InternalError("conv2d", "no own convolution kernels at this level: " + to_string(p));
}

#endif

}  // namespace tandem::cpu::TANDEM_LEVEL
