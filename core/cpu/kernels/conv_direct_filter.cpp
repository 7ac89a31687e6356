#include <algorithm>

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/conv_direct.h"
#include "core/cpu/kernels/conv_tiles.h"
#include "core/cpu/kernels/shares.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Convolution;

#ifdef TANDEM_OWN_CONVOLUTIONS

namespace {

// Floats of both panels. Together with a block of the gradient they fit in L2 (1 MiB).
constexpr Index kPanelFloats = 176 * 1024;
// Output pixels that are summed in registers per update of the gradient in memory. With few pixels the panels
// of a tile stay in L1; a gradient larger than L2 needs more pixels per update. Wide 1×1 kernels use fewer,
// so that the panels hold all channels and the next chunk can be prefetched.
constexpr Index kFewPixels = 96, kPixels = 224, kManyPixels = 448;
constexpr Index kLargeGradient = 1024 * 1024;
// Up to this many elements, threads divide the pixels and have their own sums; larger gradients are divided.
constexpr Index kPrivateGradient = 192 * 1024;

// A unit is a block of output rows of one image. With unpadded 1×1 kernels all images form one row of pixels.
//
// A panel element holds one pixel, or two pixels whose products are summed by one instruction. The dy panel
// pairs neighbours along a row and pads an odd row with zero. Each column of the x panel holds its pixel and
// the pixel one stride further, so that a pair can start at any tap. An infinite pixel next to the last one
// of an odd row therefore gives NaN, not infinity, in the sums of that tap.
template <class S, class Products>
class DirectFilterGradient final : public DirectConvolution {
  using Element = typename Products::Element;
  static constexpr Index kPixelsOfElement = Products::kDepth;

 public:
  explicit DirectFilterGradient(const Convolution& problem) : p_(problem) {
    const auto& o = p_.options;
    const bool pointwise =
        p_.kernel_height == 1 && p_.kernel_width == 1 && o.padding == std::array<Index, 2>{0, 0};
    if (pointwise && o.stride == std::array<Index, 2>{1, 1}) {
      p_.height = p_.out_height = 1;
      p_.width = p_.out_width = problem.batch * problem.out_height * problem.out_width;
      p_.batch = 1;
      flat_ = true;
    }
    gradient_ = p_.out_channels * p_.kernel_height * p_.kernel_width * p_.channels;
    const Index fitting = kPanelFloats / (p_.channels + p_.out_channels) / 4 * 4;
    const Index pixels = gradient_ > kLargeGradient ? kManyPixels
                         : pointwise                ? std::clamp(fitting, kFewPixels, kPixels)
                                                    : kPixels;
    rows_as_they_are_ = p_.channels % kLanes != 0;
    run_ = rows_as_they_are_ ? p_.kernel_width * p_.channels : p_.channels;
    taps_wide_ = rows_as_they_are_ ? 1 : p_.kernel_width;
    if (flat_) {
      unit_rows_ = 1;
      unit_width_ = std::min(pixels, p_.out_width);
      units_ = (p_.out_width + unit_width_ - 1) / unit_width_;
    } else {
      unit_width_ = p_.out_width;
      const Index most = std::max<Index>(1, pixels / p_.out_width);
      blocks_per_image_ = (p_.out_height + most - 1) / most;
      unit_rows_ = (p_.out_height + blocks_per_image_ - 1) / blocks_per_image_;
      blocks_per_image_ = (p_.out_height + unit_rows_ - 1) / unit_rows_;
      units_ = p_.batch * blocks_per_image_;
    }
    // A 1×1 kernel copies only the pixels hit by its stride.
    (pointwise ? copy_step_ : panel_step_) = std::array{o.stride[0], o.stride[1] * kPixelsOfElement};
    unit_elements_ = elements_of(unit_width_);
    panel_rows_ = (unit_rows_ - 1) * panel_step_[0] + (p_.kernel_height - 1) * o.dilation[0] + 1;
    panel_width_ = (unit_elements_ - 1) * panel_step_[1] + (p_.kernel_width - 1) * o.dilation[1] + 1;
    pixel_ = rows_as_they_are_ ? p_.channels : kLanes;
    x_unit_ = panel_rows_ * panel_width_ * pixel_;
    y_unit_ = unit_rows_ * unit_elements_ * kLanes;
    // Only whole images share a chunk, so all units of a chunk have the same size.
    units_per_chunk_ =
        blocks_per_image_ == 1 && !flat_ ? std::max<Index>(1, pixels / (unit_rows_ * unit_width_)) : 1;
    const Index x_blocks = rows_as_they_are_ ? 1 : p_.channels / kLanes, y_blocks = p_.out_channels / kLanes;
    x_group_ = x_blocks;
    y_group_ = y_blocks;
    while (units_per_chunk_ * (x_group_ * x_unit_ + y_group_ * y_unit_) > kPanelFloats) {
      if (x_group_ <= 2 && y_group_ == 1) break;
      Index& larger =
          y_group_ == 1 || (x_group_ > 2 && x_group_ * x_unit_ > y_group_ * y_unit_) ? x_group_ : y_group_;
      larger = &larger == &x_group_ ? (larger / 2 + 1) / 2 * 2 : (larger + 1) / 2;
    }
    private_ = gradient_ <= kPrivateGradient || rows_as_they_are_;
  }

  void run(const Tensor& x, const Tensor& dy, const Tensor&, const Tensor& out, bool accumulate,
           ChannelMoments*) const override {
    const int team = threads();
    const Index panels = units_per_chunk_ * (x_group_ * x_unit_ + y_group_ * y_unit_) + 2 * kLanes;
    const Tensor memory = workspace<float>({team, (panels + kLanes - 1) / kLanes * kLanes});
    if (private_ && team > 1) return sum_shares(team, x, dy, memory, out, accumulate);
    const Index x_blocks = rows_as_they_are_ ? 1 : p_.channels / kLanes, y_blocks = p_.out_channels / kLanes;
    // A divided gradient is split along the input channels first, so that no two threads copy the same input.
    const Index x_parts = std::min<Index>(team, (x_blocks + 1) / 2),
                y_parts = std::min<Index>(team / x_parts, y_blocks);
    float* gradient = out.data<float>();
    over_shares(team, private_ ? 1 : x_parts * y_parts, [&](int thread) {
      float* mine = memory.data<float>() + thread * memory.size(1);
      return [&, mine](Index part) {
        Task task{{0, units_}, {0, x_blocks}, {0, y_blocks}, x.data<S>(), dy.data<S>(), mine};
        if (!private_) {
          const Range pairs = part_of((x_blocks + 1) / 2, part % x_parts, x_parts);
          task.x_blocks = {pairs.first * 2, std::min(pairs.last * 2, x_blocks)};
          task.y_blocks = part_of(y_blocks, part / x_parts, y_parts);
        }
        sum(task, gradient, accumulate);
      };
    });
  }

 private:
  // The pixels and the part of the gradient of one thread.
  struct Task {
    Range units, x_blocks, y_blocks;
    const S *x, *dy;
    float* panels;
  };

  // Each share of the pixels has its own sums; they are added in the order of the shares.
  void sum_shares(int team, const Tensor& x, const Tensor& dy, const Tensor& memory, const Tensor& out,
                  bool accumulate) const {
    const Index x_blocks = rows_as_they_are_ ? 1 : p_.channels / kLanes, y_blocks = p_.out_channels / kLanes;
    const Index partial = (gradient_ + kLanes - 1) / kLanes * kLanes, shares = shares_of_sums(team, partial);
    const Tensor sums = workspace<float>({shares, partial});
    float* partials = sums.data<float>();
    over_shares(team, shares, [&](int thread) {
      float* panels = memory.data<float>() + thread * memory.size(1);
      return [&, panels](Index share) {
        const Range units = part_of(units_, share, shares);
        float* own = partials + share * partial;
        if (units.count() == 0) std::fill_n(own, gradient_, 0.0f);
        sum({units, {0, x_blocks}, {0, y_blocks}, x.data<S>(), dy.data<S>(), panels}, own, false);
      };
    });
    float* gradient = out.data<float>();
    parallel_for(team > 1, (gradient_ + kLanes - 1) / kLanes, [&](Index line) {
      const Index first = line * kLanes, last = std::min(first + kLanes, gradient_);
      for (Index j = first; j < last; ++j) {
        float total = accumulate ? gradient[j] : 0.0f;
        for (Index share = 0; share < shares; ++share) total += partials[share * partial + j];
        gradient[j] = total;
      }
    });
  }

  void sum(const Task& task, float* gradient, bool accumulate) const {
    static_assert(sizeof(Element) == sizeof(float));
    auto* x_panel = static_cast<Element*>(static_cast<void*>(task.panels));
    Element* y_panel = x_panel + units_per_chunk_ * x_group_ * x_unit_ + 2 * kLanes;
    for (Index unit = task.units.first; unit < task.units.last; unit += units_per_chunk_) {
      const Range units{unit, std::min(unit + units_per_chunk_, task.units.last)};
      const bool add = accumulate || unit != task.units.first;
      for (Index xb = task.x_blocks.first; xb < task.x_blocks.last; xb += x_group_) {
        const Range xs{xb, std::min(xb + x_group_, task.x_blocks.last)};
        copy_inputs(task.x, units, xs, x_panel);
        for (Index yb = task.y_blocks.first; yb < task.y_blocks.last; yb += y_group_) {
          const Range ys{yb, std::min(yb + y_group_, task.y_blocks.last)};
          copy_outputs(task.dy, units, ys, y_panel);
          Prefetch ahead = next_chunk(task, units, xs, ys);
          multiply(units, xs, ys, x_panel, y_panel, gradient, add, ahead);
        }
      }
    }
  }

  // Prefetch of the next chunk's input, if it is one range of memory (the panels hold all channels).
  Prefetch next_chunk(const Task& task, Range units, Range xs, Range ys) const {
    if (units.last >= task.units.last || xs.count() * pixel_ != p_.channels ||
        ys.count() * kLanes != p_.out_channels)
      return {};
    const Range next{units.last, std::min(units.last + units_per_chunk_, task.units.last)};
    const auto pixels_of = [&](Range range, Index rows, Index width, Index image_rows) -> Range {
      if (flat_) return {range.first * unit_width_, std::min(range.last * unit_width_, p_.out_width)};
      const Index first = image_of(range.first) * image_rows + row_of(range.first) * rows;
      const Index count = blocks_per_image_ == 1 ? range.count() * image_rows : rows_of(range.first) * rows;
      return {first * width, std::min(first + count, p_.batch * image_rows) * width};
    };
    const Range x = pixels_of(next, p_.options.stride[0], p_.width, p_.height);
    const Range y = pixels_of(next, 1, p_.out_width, p_.out_height);
    const Index vectors = rows_as_they_are_ ? (run_ + kLanes - 1) / kLanes : xs.count();
    const bool pairs = kGradientBlocks == 2 && vectors > 1;
    const Index tiles = (vectors + kGradientBlocks - 1) / kGradientBlocks * ys.count() *
                        gradient_tile_count(pairs) * p_.kernel_height * taps_wide_;
    const Index elements = units.count() * rows_of(units.first) * elements_of(width_of(units.first));
    return {bytes_of(task.x + x.first * p_.channels, x.count() * p_.channels),
            bytes_of(task.dy + y.first * p_.out_channels, y.count() * p_.out_channels), tiles * elements};
  }

  // First output row and image of a unit.
  Index row_of(Index unit) const { return unit % blocks_per_image_ * unit_rows_; }
  Index image_of(Index unit) const { return unit / blocks_per_image_; }

  // Copies inputs to [block][unit][row][column][16], or to unpadded rows; pixels outside the image are zero.
  void copy_inputs(const S* x, Range units, Range blocks, Element* panel) const {
    const auto& o = p_.options;
    for (Index unit = units.first; unit < units.last; ++unit) {
      Element* to = panel + (unit - units.first) * x_unit_;
      const S* image = x + (flat_ ? 0 : image_of(unit) * p_.height * p_.width * p_.channels);
      const Index left = flat_ ? unit * unit_width_ : -o.padding[1];
      for (Index r = 0; r < panel_rows_; ++r, to += panel_width_ * pixel_) {
        const Index y = flat_ ? 0 : row_of(unit) * o.stride[0] - o.padding[0] + r * copy_step_[0];
        const S* row = y >= 0 && y < p_.height ? image + y * p_.width * p_.channels : nullptr;
        if (rows_as_they_are_) {
          copy_whole_row(row, left, to);
        } else {
          copy_row(row, left, blocks, to);
        }
      }
    }
    // The last vector load may read past the unpadded rows.
    if (rows_as_they_are_) std::fill_n(panel + units.count() * x_unit_, 2 * kLanes, Element{});
  }

  // Panel columns whose pixel, shifted by `shift` image columns, lies inside the image.
  Range columns_inside(Index left, Index shift) const {
    const Index step = copy_step_[1], from = left + shift;
    const Index first = std::min((std::max<Index>(0, -from) + step - 1) / step, panel_width_);
    return {first, std::clamp((p_.width - from + step - 1) / step, first, panel_width_)};
  }

  // Copies one image row (null: padding); image column `left` becomes the first panel column.
  void copy_row(const S* row, Index left, Range blocks, Element* to) const {
    const Index step = copy_step_[1] * p_.channels;
    for (Index b = blocks.first; b < blocks.last; ++b, to += units_per_chunk_ * x_unit_) {
      if (!row) {
        std::fill_n(to, panel_width_ * kLanes, Element{});
        continue;
      }
      const S* from = row + left * p_.channels + b * kLanes;
      const Range first = columns_inside(left, 0);
      if constexpr (kPixelsOfElement == 1) {
        for (Index c = 0; c < first.first; ++c) store(to + c * kLanes, zero());
        for (Index c = first.first; c < first.last; ++c) store(to + c * kLanes, load(from + c * step));
        for (Index c = first.last; c < panel_width_; ++c) store(to + c * kLanes, zero());
      } else {
        const Index shift = p_.options.stride[1];
        const Range second = columns_inside(left, shift);
        const auto copy = [&](Index c) {
          const bool one = c >= first.first && c < first.last, two = c >= second.first && c < second.last;
          const S* at = from + c * step;
          store_pairs(to + c * kLanes,
                      load_pairs(one ? at : kZeros, two ? at + shift * p_.channels : kZeros));
        };
        for (Index c = 0; c < first.first; ++c) copy(c);
        const S* other = from + shift * p_.channels;
        for (Index c = first.first; c < second.last; ++c)
          store_pairs(to + c * kLanes, load_pairs(from + c * step, other + c * step));
        for (Index c = std::max(first.first, second.last); c < panel_width_; ++c) copy(c);
      }
    }
  }

  void copy_whole_row(const S* row, Index left, Element* to) const {
    if constexpr (kPixelsOfElement == 1) {
      const Range inside = row ? columns_inside(left, 0) : Range{panel_width_, panel_width_};
      std::fill_n(to, inside.first * pixel_, Element{});
      if (row)
        widen_block(row + (left + inside.first) * pixel_, to + inside.first * pixel_,
                    inside.count() * pixel_);
      std::fill(to + inside.last * pixel_, to + panel_width_ * pixel_, Element{});
    }
  }

  // Size of a unit. The last unit of an image, or of all pixels, may be smaller.
  Index rows_of(Index unit) const { return flat_ ? 1 : std::min(unit_rows_, p_.out_height - row_of(unit)); }
  Index width_of(Index unit) const {
    return flat_ ? std::min(unit_width_, p_.out_width - unit * unit_width_) : unit_width_;
  }
  static Index elements_of(Index width) { return (width + kPixelsOfElement - 1) / kPixelsOfElement; }

  // [block][unit][row][column][16]
  void copy_outputs(const S* dy, Range units, Range blocks, Element* panel) const {
    const Index block_size = units_per_chunk_ * y_unit_;
    for (Index unit = units.first; unit < units.last; ++unit) {
      const Index first =
          flat_ ? unit * unit_width_ : (image_of(unit) * p_.out_height + row_of(unit)) * p_.out_width;
      for (Index b = blocks.first; b < blocks.last; ++b) {
        const S* from = dy + first * p_.out_channels + b * kLanes;
        Element* to = panel + (b - blocks.first) * block_size + (unit - units.first) * y_unit_;
        for (Index row = 0; row < rows_of(unit); ++row) {
          copy_outputs_row(from, width_of(unit), to);
          from += p_.out_width * p_.out_channels;
          to += unit_elements_ * kLanes;
        }
      }
    }
  }

  void copy_outputs_row(const S* from, Index count, Element* to) const {
    const Index step = p_.out_channels;
    if constexpr (kPixelsOfElement == 1) {
      for (Index i = 0; i < count; ++i) store(to + i * kLanes, load(from + i * step));
    } else {
      for (; count >= 2; count -= 2, from += 2 * step, to += kLanes)
        store_pairs(to, load_pairs(from, from + step));
      if (count > 0) store_pairs(to, load_pairs(from, kZeros));
    }
  }

  void multiply(Range units, Range xs, Range ys, const Element* x_panel, const Element* y_panel,
                float* gradient, bool add, Prefetch& ahead) const {
    const auto& o = p_.options;
    const Pixels pixels{units.count(),
                        rows_of(units.first),
                        elements_of(width_of(units.first)),
                        x_unit_,
                        panel_step_[0] * panel_width_ * pixel_,
                        panel_step_[1] * pixel_,
                        y_unit_,
                        unit_elements_ * kLanes};
    const Index taps = p_.kernel_height * taps_wide_, row_step = taps * run_;
    const Index x_block = rows_as_they_are_ ? kLanes : units_per_chunk_ * x_unit_;
    const Index vectors = rows_as_they_are_ ? (run_ + kLanes - 1) / kLanes : xs.count();
    for (Index v = 0; v < vectors; v += kGradientBlocks) {
      const bool pair = kGradientBlocks == 2 && v + 1 < vectors;
      const Index channel = rows_as_they_are_ ? v * kLanes : (xs.first + v) * kLanes;
      const Index lanes = run_ - channel;
      for (Index b = ys.first; b < ys.last; ++b) {
        const Element* dy = y_panel + (b - ys.first) * units_per_chunk_ * y_unit_;
        for (Index tap = 0; tap < taps; ++tap) {
          const Element* x =
              x_panel + v * x_block +
              (tap / taps_wide_ * o.dilation[0] * panel_width_ + tap % taps_wide_ * o.dilation[1]) * pixel_;
          gradient_tiles<Products>(pair, pixels, x, x_block, dy,
                                   gradient + b * kLanes * row_step + tap * run_ + channel, row_step, lanes,
                                   add, ahead);
        }
      }
    }
  }

  static constexpr S kZeros[kLanes] = {};

  Convolution p_;
  // Strides: image pixels per panel column, and panel columns per element of a sum.
  std::array<Index, 2> copy_step_{1, 1}, panel_step_{1, 1};
  bool flat_ = false, rows_as_they_are_ = false, private_ = false;
  Index run_ = 0, taps_wide_ = 0, pixel_ = 0, gradient_ = 0;
  Index units_ = 0, unit_rows_ = 0, unit_width_ = 0, unit_elements_ = 0, blocks_per_image_ = 1,
        units_per_chunk_ = 0;
  Index panel_rows_ = 0, panel_width_ = 0, x_unit_ = 0, y_unit_ = 0, x_group_ = 0, y_group_ = 0;
};

template <class S>
using FilterGradientOfFloats = DirectFilterGradient<S, FloatProducts>;

}  // namespace

std::unique_ptr<DirectConvolution> detail::direct_filter_gradient(const Convolution& p) {
#if defined(TANDEM_SIMD_BF16_PAIRS)
  if (p.dtype == DType::bf16 && p.channels % kLanes == 0)
    return std::make_unique<DirectFilterGradient<BFloat16, PairProducts>>(p);
#endif
  return detail::make_for_storage<FilterGradientOfFloats>(p.dtype, p);
}

#endif

}  // namespace tandem::cpu::TANDEM_LEVEL
