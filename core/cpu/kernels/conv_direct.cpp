#include "core/cpu/kernels/conv_direct.h"

#include <omp.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/conv_tiles.h"
#include "core/cpu/packed_weights.h"
#include "core/plan.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Convolution;
using onednn::Pass;

#ifdef TANDEM_OWN_CONVOLUTIONS

namespace {

// The output pixels (first + i·step) along both axes that share their taps: all of them in forward; in
// input_gradient one class for each remainder by the stride.
struct PixelClass {
  std::array<Index, 2> first{}, step{1, 1}, count{};
  std::vector<Index> taps;  // offsets in the panel, from the panel position of pixel i = (0, 0)
  std::vector<std::array<Index, 2>> kernel;  // (kh, kw) of each tap
  Index weights = 0;                         // where its weights start in the packed copy, in floats
};

// S is the storage type of images and filter.
template <class S>
class DirectForward final : public DirectConvolution {
 public:
  DirectForward(Pass pass, const Convolution& p) : pass_(pass), p_(p), key_(pass, p) {
    if (pass == Pass::forward) {
      in_ = {p.height, p.width, p.channels};
      out_ = {p.out_height, p.out_width, p.out_channels};
      plan_forward();
    } else {
      in_ = {p.out_height, p.out_width, p.out_channels};
      out_ = {p.height, p.width, p.channels};
      plan_input_gradient();
    }
    vectors_ = tile_vectors(out_.channels);
    tiles_ = tile_set(vectors_, pixel_step_);
    ensure(tiles_.tiles[0], "conv2d", "no tile for pixels {} floats apart: {}", pixel_step_, to_string(p));
    for (PixelClass& c : classes_) {
      c.weights = weight_count_;
      rows_of_tiles_ += c.count[0] * out_.channels / (vectors_ * kLanes);
      weight_count_ += static_cast<Index>(c.taps.size()) * run_ * blocks_ * out_.channels;
    }
  }

  void run(const Tensor& in, const Tensor& filter, const Tensor& bias, const Tensor& out,
           bool accumulate) const override {
    const PackedWeights weights(filter, key_.id, static_cast<std::size_t>(weight_count_) * sizeof(float),
                                [&](void* to) { pack(filter.data<S>(), static_cast<float*>(to)); });
    const Index panel = blocks_ * block_stride_ + kLanes;
    const Index row = std::is_same_v<S, float> ? 0 : out_.width * vectors_ * kLanes;
    const Tensor panels = Tensor::empty({threads(), panel + row}, {.kind = MemoryKind::workspace});
    const S* from = in.data<S>();
    S* to = out.data<S>();
    const float* offset = bias.defined() ? bias.data<float>() : nullptr;
#pragma omp parallel
    {
      float* mine = panels.data<float>() + omp_get_thread_num() * (panel + row);
      std::fill_n(mine, panel, 0.0f);  // the borders; images only overwrite the inside
#pragma omp for schedule(static)
      for (Index n = 0; n < p_.batch; ++n) {
        copy_image(from + n * in_.height * in_.width * in_.channels, mine);
        detail::Prefetch ahead;
        const Index image = in_.height * in_.width * in_.channels;
        if (n + 1 < p_.batch) ahead = {from + (n + 1) * image, image, rows_of_tiles_};
        for (const PixelClass& c : classes_)
          compute(c, mine, weights.floats(), offset, accumulate, mine + panel,
                  to + n * out_.height * out_.width * out_.channels, ahead);
      }
    }
  }

 private:
  struct Image {
    Index height, width, channels;
  };
  struct Key {
    Key(Pass pass, const Convolution& p)
        : id(layout_id(PlanKey(1, pass, p.out_channels, p.kernel_height, p.kernel_width, p.channels,
                               p.options.stride[0], p.options.stride[1], p.options.padding[0],
                               p.options.padding[1], p.options.dilation[0], p.options.dilation[1]))) {}
    std::uint32_t id;
  };

  // Panels of 16 channels, or, with few channels, whole rows as they are: then the taps of one kernel row are
  // one run.
  void plan_forward() {
    const auto& o = p_.options;
    rows_as_they_are_ = p_.channels % kLanes != 0;
    blocks_ = rows_as_they_are_ ? 1 : p_.channels / kLanes;
    const Index pixel = rows_as_they_are_ ? p_.channels : kLanes;
    pad_ = {o.padding[0], o.padding[1]};
    panel_height_ = std::max(in_.height + pad_[0],
                             (out_.height - 1) * o.stride[0] + (p_.kernel_height - 1) * o.dilation[0] + 1);
    panel_width_ = std::max(in_.width + pad_[1],
                            (out_.width - 1) * o.stride[1] + (p_.kernel_width - 1) * o.dilation[1] + 1);
    pixel_step_ = o.stride[1] * pixel;
    row_step_ = o.stride[0] * panel_width_ * pixel;
    block_stride_ = panel_height_ * panel_width_ * pixel;
    PixelClass c{.count = {out_.height, out_.width}, .taps = {}, .kernel = {}};
    for (Index kh = 0; kh < p_.kernel_height; ++kh) {
      for (Index kw = 0; kw < (rows_as_they_are_ ? 1 : p_.kernel_width); ++kw) {
        c.taps.push_back((kh * o.dilation[0] * panel_width_ + kw * o.dilation[1]) * pixel);
        c.kernel.push_back({kh, kw});
      }
    }
    run_ = rows_as_they_are_ ? p_.kernel_width * p_.channels : kLanes;
    classes_.push_back(std::move(c));
  }

  // dx[s·i + a] gathers dy[i + (a + padding - kh·dilation)/s] over the taps for which the division is exact.
  void plan_input_gradient() {
    const auto& o = p_.options;
    blocks_ = in_.channels / kLanes;
    run_ = kLanes;
    std::array<Index, 2> lowest{}, highest{};
    const auto offset = [&](int axis, Index a, Index k, Index& q) {
      const Index shifted = a + o.padding[axis] - k * o.dilation[axis];
      if (shifted % o.stride[axis] != 0) return false;
      q = shifted / o.stride[axis];
      return true;
    };
    for (int axis = 0; axis < 2; ++axis) {
      const Index kernel = axis == 0 ? p_.kernel_height : p_.kernel_width;
      const Index extent = axis == 0 ? out_.height : out_.width;
      for (Index a = 0; a < o.stride[axis]; ++a) {
        const Index count = (extent - a + o.stride[axis] - 1) / o.stride[axis];
        for (Index k = 0, q = 0; k < kernel; ++k) {
          if (!offset(axis, a, k, q)) continue;
          lowest[axis] = std::min(lowest[axis], q);
          highest[axis] = std::max(highest[axis], count - 1 + q);
        }
      }
      pad_[axis] = -lowest[axis];
    }
    panel_height_ = std::max(in_.height, highest[0] + 1) + pad_[0];
    panel_width_ = std::max(in_.width, highest[1] + 1) + pad_[1];
    pixel_step_ = kLanes;
    row_step_ = panel_width_ * kLanes;
    block_stride_ = panel_height_ * panel_width_ * kLanes;
    for (Index a = 0; a < o.stride[0]; ++a) {
      for (Index b = 0; b < o.stride[1]; ++b) {
        PixelClass c{.first = {a, b},
                     .step = o.stride,
                     .count = {(out_.height - a + o.stride[0] - 1) / o.stride[0],
                               (out_.width - b + o.stride[1] - 1) / o.stride[1]},
                     .taps = {},
                     .kernel = {}};
        for (Index kh = 0, qh = 0; kh < p_.kernel_height; ++kh) {
          if (!offset(0, a, kh, qh)) continue;
          for (Index kw = 0, qw = 0; kw < p_.kernel_width; ++kw) {
            if (!offset(1, b, kw, qw)) continue;
            c.taps.push_back(((pad_[0] + qh) * panel_width_ + pad_[1] + qw) * kLanes);
            c.kernel.push_back({kh, kw});
          }
        }
        classes_.push_back(std::move(c));
      }
    }
  }

  // Per class: [block of output channels][input panel][tap][input channel][OV·16].
  void pack(const S* w, float* to) const {
    const Index width = vectors_ * kLanes, kw = p_.kernel_width, inner = p_.channels;
    const Index line = p_.kernel_height * kw * inner;  // from one outer channel of the filter to the next
    const bool forward = pass_ == Pass::forward;
    for (const PixelClass& c : classes_) {
      const Index share = static_cast<Index>(c.taps.size()) * run_ * blocks_ * width;
#pragma omp parallel for if (weight_count_ >= 64 * 64)
      for (Index first = 0; first < out_.channels; first += width) {
        float* lines = to + c.weights + first / width * share;
        for (Index block = 0; block < blocks_; ++block) {
          for (const auto& tap : c.kernel) {
            const S* at = w + (tap[0] * kw + tap[1]) * inner;
            if (forward) {
              turn_lines(at + first * line + block * kLanes, line, lines);
            } else {
              for (Index r = 0; r < run_; ++r)
                widen_block(at + (block * kLanes + r) * line + first, lines + r * width, width);
            }
            lines += run_ * width;
          }
        }
      }
    }
  }

  // to[r][v] = from[v][r]: `run_` inputs by OV·16 outputs, whose inputs follow one another.
  void turn_lines(const S* from, Index line, float* to) const {
    const Index width = vectors_ * kLanes;
    float held[kLanes][kLanes];
    for (Index v = 0; v < width; v += kLanes) {
      for (Index r = 0; r < run_; r += kLanes) {
        const Index count = std::min<Index>(kLanes, run_ - r);
        for (Index i = 0; i < kLanes; ++i) widen_block(from + (v + i) * line + r, held[i], count);
        for (Index j = 0; j < count; ++j) {
          for (Index i = 0; i < kLanes; ++i) to[(r + j) * width + v + i] = held[i][j];
        }
      }
    }
  }

  void copy_image(const S* image, float* panel) const {
    const Index pixel = rows_as_they_are_ ? in_.channels : kLanes;
    for (Index y = 0; y < in_.height && y + pad_[0] < panel_height_; ++y) {
      const S* row = image + y * in_.width * in_.channels;
      float* to = panel + ((y + pad_[0]) * panel_width_ + pad_[1]) * pixel;
      const Index width = std::min(in_.width, panel_width_ - pad_[1]);
      if (rows_as_they_are_ || blocks_ == 1) {
        widen_block(row, to, width * pixel);
        continue;
      }
      for (Index block = 0; block < blocks_; ++block, to += block_stride_) {
        for (Index x = 0; x < width; ++x)
          store(to + x * kLanes, load(row + x * in_.channels + block * kLanes));
      }
    }
  }

  void compute(const PixelClass& c, const float* panel, const float* packed, const float* bias,
               bool accumulate, float* sums, S* image, detail::Prefetch& ahead) const {
    const Index width = vectors_ * kLanes;
    const Index share = static_cast<Index>(c.taps.size()) * run_ * blocks_ * width;
    constexpr bool kInPlace = std::is_same_v<S, float>;
    const Index pixel_step = c.step[1] * out_.channels, out_step = kInPlace ? pixel_step : width;
    for (Index first = 0; first < out_.channels; first += width) {
      const float* weights = packed + c.weights + first / width * share;
      for (Index y = 0; y < c.count[0]; ++y) {
        ahead.advance();
        const float* in = panel + y * row_step_;
        S* pixels = image + ((c.first[0] + y * c.step[0]) * out_.width + c.first[1]) * out_.channels + first;
        float* out = sums;
        if constexpr (kInPlace) out = pixels;
        Index left = c.count[1];
        for (std::size_t t = 0; left > 0; ++t) {
          for (; left >= tiles_.widths[t]; left -= tiles_.widths[t]) {
            tiles_.tiles[t](in, c.taps, blocks_, block_stride_, run_, weights, bias ? bias + first : nullptr,
                            kInPlace && accumulate, out, out_step);
            in += tiles_.widths[t] * pixel_step_;
            out += tiles_.widths[t] * out_step;
          }
        }
        if constexpr (!kInPlace) store_row(sums, c.count[1], accumulate, pixels, pixel_step);
      }
    }
  }

  void store_row(const float* sums, Index count, bool accumulate, S* pixels, Index step) const {
    for (Index i = 0; i < count; ++i, pixels += step) {
      for (Index v = 0; v < vectors_; ++v, sums += kLanes) {
        const Vec value = load(sums);
        store(pixels + v * kLanes, accumulate ? load(pixels + v * kLanes) + value : value);
      }
    }
  }

  Pass pass_;
  Convolution p_;
  Key key_;
  Image in_{}, out_{};
  bool rows_as_they_are_ = false;
  std::array<Index, 2> pad_{};
  Index panel_height_ = 0, panel_width_ = 0, blocks_ = 0, block_stride_ = 0, pixel_step_ = 0, row_step_ = 0,
        run_ = 0;
  Index vectors_ = 0, weight_count_ = 0, rows_of_tiles_ = 0;
  std::vector<PixelClass> classes_;
  TileSet tiles_;
};

// To a 1×1 kernel at stride 1 images are rows of pixels; where they can be cut into equal rows whose panel
// stays in the second cache, these take the place of the images.
Convolution with_rows_for_images(Pass pass, Convolution p) {
  constexpr Index kRowFloats = 128 * 1024, kLongest = 224, kShortest = 28;
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
  if (pass == Pass::filter_gradient) return detail::direct_filter_gradient(p);
  const Convolution rows = p.dtype == DType::f32 ? p : with_rows_for_images(pass, p);
  return detail::make_for_storage<DirectForward>(p.dtype, pass, rows);
}

#else

std::unique_ptr<DirectConvolution> own_convolution(ConvAlgorithm, Pass, const Convolution& p) {
  throw InternalError("conv2d", "no own kernels at this level: " + to_string(p));
}

#endif

}  // namespace tandem::cpu::TANDEM_LEVEL
