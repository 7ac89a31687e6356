// 3×3 convolutions with stride 1 by Winograd's minimal filtering F(2×2, 3×3) (Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks", 2016). A tile has 4×4 inputs d, at a stride of two pixels,
// and 2×2 outputs Y; g is the filter:
//   Y  = Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A            16 products instead of 36;
//   dg = Gᵀ[Σ over tiles (A dY Aᵀ) ⊙ (Bᵀ d B)]G   the same map, transposed.
// Over channels, ⊙ is one matrix product at each of the 16 positions of a tile. The input gradient is the
// forward pass over dY with the filter rotated by 180° and its channels exchanged.
//
// Bᵀ and Aᵀ contain only 0 and ±1, G also ±½. The transforms add a few roundings of values of the same
// magnitude, like another summation order. An infinite input gives NaN, not infinity, in its tile.

#include <algorithm>
#include <numeric>

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/conv_direct.h"
#include "core/cpu/kernels/conv_tiles.h"
#include "core/cpu/kernels/shares.h"
#include "core/cpu/packed_weights.h"
#include "core/kernel_cache.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Convolution;
using onednn::Pass;

#ifdef TANDEM_OWN_CONVOLUTIONS

namespace {

constexpr Index kPositions = 16;

// Rows of tiles, numbered through all images of the batch; a row has `columns` tiles.
struct Tiling {
  Index height, width, channels;              // input image
  Index out_height, out_width, out_channels;  // output image
  std::array<Index, 2> padding;
  Index rows = (out_height + 1) / 2, columns = (out_width + 1) / 2;
};

// Floats between positions: an odd number of cache lines, so that positions of a tile map to different L1
// sets.
Index position_stride(Index floats) { return (floats / kLanes | 1) * kLanes; }

// [position][channels/16][tile][16] for tile rows [first, first + count).
struct Transformed {
  float* data;
  Index tiles;  // per full chunk
  Index position_stride;

  float* at(Index block, Index tile) const { return data + (block * tiles + tile) * kLanes; }
};

// Bᵀ d B. `zeros` is a row of zeros of the input's size.
template <class S>
void transform_inputs(const Tiling& t, const S* x, const S* zeros, Index first, Index count,
                      const Transformed& to) {
  struct Column {
    Vec of[4];
  };
  const Index step = to.position_stride;
  for (Index row = 0; row < count; ++row) {
    const S* image = x + (first + row) / t.rows * t.height * t.width * t.channels;
    const Index top = (first + row) % t.rows * 2 - t.padding[0];
    for (Index block = 0; block < t.channels / kLanes; ++block) {
      const S* lines[4];
      for (Index i = 0; i < 4; ++i) {
        const bool inside = top + i >= 0 && top + i < t.height;
        lines[i] = (inside ? image + (top + i) * t.width * t.channels : zeros) + block * kLanes;
      }
      const auto column = [&](Index at) -> Column {
        if (at < 0 || at >= t.width) return {zero(), zero(), zero(), zero()};
        const Vec d0 = load(lines[0] + at * t.channels), d1 = load(lines[1] + at * t.channels),
                  d2 = load(lines[2] + at * t.channels), d3 = load(lines[3] + at * t.channels);
        return {d0 - d2, d1 + d2, d2 - d1, d1 - d3};
      };
      float* v = to.at(block, row * t.columns);
      Index at = -t.padding[1];
      Column a = column(at), b = column(at + 1);
      for (Index tile = 0; tile < t.columns; ++tile, v += kLanes) {
        at += 2;
        const Column c = column(at), d = column(at + 1);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          store(v + (4 * i + 0) * step, a.of[i] - c.of[i]);
          store(v + (4 * i + 1) * step, b.of[i] + c.of[i]);
          store(v + (4 * i + 2) * step, c.of[i] - b.of[i]);
          store(v + (4 * i + 3) * step, b.of[i] - d.of[i]);
        }
        a = c;
        b = d;
      }
    }
  }
}

// A dY Aᵀ.
template <class S>
void transform_output_gradients(const Tiling& t, const S* dy, Index first, Index count,
                                const Transformed& to) {
  const Index step = to.position_stride;
  for (Index row = 0; row < count; ++row) {
    const Index y = (first + row) % t.rows * 2;
    const S* line = dy + (((first + row) / t.rows * t.out_height + y) * t.out_width) * t.out_channels;
    const bool below = y + 1 < t.out_height;
    for (Index block = 0; block < t.out_channels / kLanes; ++block) {
      float* w = to.at(block, row * t.columns);
      for (Index tile = 0; tile < t.columns; ++tile, w += kLanes) {
        const S* from = line + tile * 2 * t.out_channels + block * kLanes;
        const bool right = tile * 2 + 1 < t.out_width;
        const Vec y00 = load(from), y01 = right ? load(from + t.out_channels) : zero();
        const S* under = from + t.out_width * t.out_channels;
        const Vec y10 = below ? load(under) : zero(),
                  y11 = below && right ? load(under + t.out_channels) : zero();
        const Vec left[4] = {y00, y00 + y10, y00 - y10, zero() - y10};
        const Vec other[4] = {y01, y01 + y11, y01 - y11, zero() - y11};
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          store(w + (4 * i + 0) * step, left[i]);
          store(w + (4 * i + 1) * step, left[i] + other[i]);
          store(w + (4 * i + 2) * step, left[i] - other[i]);
          store(w + (4 * i + 3) * step, zero() - other[i]);
        }
      }
    }
  }
}

// Floats of the transforms of one chunk, about half of L2, and the minimum number of tiles per chunk, which
// amortises loading the weights or sums of a position.
constexpr Index kForwardFloats = 128 * 1024, kGradientFloats = 160 * 1024;
constexpr Index kFewestTiles = 28;

// Rows of tiles per chunk, for `floats` per tile: a multiple of 7 tiles if possible, to match the widths of
// the inner loops, and at most an equal share per thread.
Index rows_at_once(const Tiling& t, Index batch, Index floats, Index budget) {
  const Index tiles = std::max(budget / floats, kFewestTiles);
  const Index share = std::max<Index>((batch * t.rows + threads() - 1) / threads(), 1);
  const Index most = std::clamp<Index>(tiles / t.columns, 1, share);
  const Index multiple = 7 / std::gcd(t.columns, Index{7});
  return most >= multiple ? most / multiple * multiple : most;
}

template <class S>
class WinogradForward final : public DirectConvolution {
 public:
  WinogradForward(Pass pass, const Convolution& p)
      : pass_(pass),
        batch_(p.batch),
        t_(pass == Pass::forward ? Tiling{p.height, p.width, p.channels, p.out_height, p.out_width,
                                          p.out_channels, p.options.padding}
                                 : Tiling{p.out_height,
                                          p.out_width,
                                          p.out_channels,
                                          p.height,
                                          p.width,
                                          p.channels,
                                          {2 - p.options.padding[0], 2 - p.options.padding[1]}}),
        vectors_(tile_vectors(t_.out_channels)),
        products_(tile_set<FloatProducts>(vectors_, kLanes)),
        layout_(layout_id(KernelKey(2, pass, p.channels, p.out_channels))) {
    rows_ = rows_at_once(t_, batch_, kPositions * (t_.channels + width()), kForwardFloats);
    tiles_ = rows_ * t_.columns;
    in_stride_ = position_stride(t_.channels * tiles_);
    out_stride_ = position_stride(width() * tiles_);
  }

  void run(const Tensor& in, const Tensor& filter, const Tensor& bias, const Tensor& out, bool accumulate,
           ChannelMoments* moments) const override {
    const Index weights = kPositions * t_.channels * t_.out_channels;
    const PackedWeights packed(filter, layout_, static_cast<std::size_t>(weights) * sizeof(float),
                               [&](void* to) { pack(filter.data<S>(), static_cast<float*>(to)); });
    const Index line = t_.width * t_.channels, total = batch_ * t_.rows;
    const int team = threads();
    const Tensor memory = workspace<float>({team, line + kPositions * (in_stride_ + out_stride_)});
    const Index chunks = (total + rows_ - 1) / rows_;
    const Index shares = shares_of(team);
    over_shares(team, shares, [&](int thread) {
      float* zeros = memory.data<float>() + thread * memory.size(1);
      std::fill_n(zeros, line, 0.0f);
      const auto* outside = reinterpret_cast<const S*>(zeros);
      const Transformed v{zeros + line, tiles_, in_stride_};
      float* m = v.data + kPositions * in_stride_;
      return [&, outside, v, m](Index share) {
        const Range mine = part_of(chunks, share, shares);
        for (Index chunk = mine.first; chunk < mine.last; ++chunk) {
          const Index first = chunk * rows_, count = std::min(rows_, total - first);
          transform_inputs(t_, in.data<S>(), outside, first, count, v);
          Shares ahead = next_rows(in.data<S>(), first + count, std::min(rows_, total - first - count));
          for (Index channel = 0; channel < t_.out_channels; channel += width()) {
            multiply(v, packed.floats() + kPositions * t_.channels * channel, count * t_.columns, m, ahead);
            transform_products(m, first, count, channel, bias.defined() ? bias.data<float>() : nullptr,
                               accumulate, out.data<S>());
            if (moments) add_moments(*moments, static_cast<int>(share), out.data<S>(), first, count, channel);
          }
        }
      };
    });
  }

 private:
  // Output channels per block.
  Index width() const { return vectors_ * kLanes; }

  // Input rows of the next `count` rows of tiles, prefetched during the current products.
  Shares next_rows(const S* in, Index first, Index count) const {
    if (count <= 0) return {};
    const auto line = [&](Index row) {
      return row / t_.rows * t_.height + std::clamp<Index>(row % t_.rows * 2 - t_.padding[0], 0, t_.height);
    };
    const Index from = line(first) * t_.width * t_.channels,
                to = line(first + count) * t_.width * t_.channels;
    return {bytes_of(in + from, to - from), kPositions * (t_.out_channels / width())};
  }

  // m[position][tile][width] = Σ over channels of v · weights[position][channel][width]. Each position
  // prefetches the weights of the next position or of the next channels.
  void multiply(const Transformed& v, const float* weights, Index tiles, float* m, Shares& ahead) const {
    static constexpr std::array<Index, 1> kOne{0};
    const Taps taps{kOne, t_.channels / kLanes, tiles_ * kLanes, kLanes};
    const Index block = t_.channels * width(), turns = products_.count(tiles) * t_.channels;
    for (Index position = 0; position < kPositions; ++position, weights += block) {
      Prefetch requests(bytes_of(weights + block, block), ahead.next(), turns);
      products_.run(taps, tiles, v.data + position * in_stride_, kLanes, weights, nullptr, false,
                    m + position * out_stride_, width(), requests);
    }
  }

  // Moments of the output pixels of `count` rows of tiles, image by image.
  void add_moments(ChannelMoments& moments, int part, const S* y, Index first, Index count,
                   Index channel) const {
    const Index line = t_.out_width * t_.out_channels;
    for (Index row = first; row < first + count;) {
      const Index image = row / t_.rows, last = std::min(first + count, (image + 1) * t_.rows);
      const Index top = row % t_.rows * 2, bottom = std::min((last - image * t_.rows) * 2, t_.out_height);
      moments.add(part, y + (image * t_.out_height + top) * line + channel, bottom - top, line, t_.out_width,
                  t_.out_channels, channel, width());
      row = last;
    }
  }

  // Aᵀ m A, stored to the output channels from `channel` on.
  void transform_products(const float* m, Index first, Index count, Index channel, const float* bias,
                          bool accumulate, S* y) const {
    for (Index row = 0; row < count; ++row) {
      const Index top = (first + row) % t_.rows * 2;
      S* line = y + (((first + row) / t_.rows * t_.out_height + top) * t_.out_width) * t_.out_channels;
      const bool below = top + 1 < t_.out_height;
      for (Index column = 0; column < t_.columns; ++column) {
        const bool right = column * 2 + 1 < t_.out_width;
        for (Index vector = 0; vector < vectors_; ++vector) {
          const float* from = m + (row * t_.columns + column) * width() + vector * kLanes;
          S* to = line + column * 2 * t_.out_channels + channel + vector * kLanes;
          Vec upper[4], lower[4];
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j) {
            const Vec m0 = load(from + j * out_stride_), m1 = load(from + (4 + j) * out_stride_),
                      m2 = load(from + (8 + j) * out_stride_), m3 = load(from + (12 + j) * out_stride_);
            upper[j] = m0 + (m1 + m2);
            lower[j] = (m1 - m2) - m3;
          }
          const Vec offset = bias ? load(bias + channel + vector * kLanes) : zero();
          const auto put = [&](S* pixel, Vec value) {
            value = value + offset;
            store(pixel, accumulate ? load(pixel) + value : value);
          };
          put(to, upper[0] + (upper[1] + upper[2]));
          if (right) put(to + t_.out_channels, (upper[1] - upper[2]) - upper[3]);
          if (!below) continue;
          to += t_.out_width * t_.out_channels;
          put(to, lower[0] + (lower[1] + lower[2]));
          if (right) put(to + t_.out_channels, (lower[1] - lower[2]) - lower[3]);
        }
      }
    }
  }

  // G g Gᵀ as [out_channels/width][position][channels][width]. Forward filters have contiguous input
  // channels, the packed copy contiguous output channels: blocks of 16×16 are transposed in L1.
  void pack(const S* filter, float* to) const {
    const bool forward = pass_ == Pass::forward;
    const Index in = t_.channels, out = t_.out_channels, inner = forward ? in : out;
    const Index outer_blocks = (forward ? out : in) / kLanes;
    parallel_for(in * out >= 64 * 64, outer_blocks, [&](Index outer) {
      alignas(64) float block[kPositions][kLanes][kLanes];  // [position][outer][inner]
      for (Index first = 0; first < inner; first += kLanes) {
        for (Index row = 0; row < kLanes; ++row) {
          transform_filter(filter + (outer * kLanes + row) * 9 * inner + first, inner, !forward,
                           &block[0][row][0]);
        }
        const Index channel = forward ? first : outer * kLanes, output = forward ? outer * kLanes : first;
        for (Index position = 0; position < kPositions; ++position) {
          float* lines =
              to + ((output / width() * kPositions + position) * in + channel) * width() + output % width();
          for (Index i = 0; i < kLanes; ++i) {
            for (Index o = 0; o < kLanes; ++o)
              lines[i * width() + o] = forward ? block[position][o][i] : block[position][i][o];
          }
        }
      }
    });
  }

  // G g Gᵀ of 16 adjacent filters. Their nine taps are `step` apart; positions are 256 floats apart.
  static void transform_filter(const S* filter, Index step, bool turned, float* to) {
    const Vec half = broadcast(0.5f);
    const auto expand = [&](Vec g0, Vec g1, Vec g2, Vec(&u)[4]) {
      const Vec ends = half * (g0 + g2), middle = half * g1;
      u[0] = g0;
      u[1] = ends + middle;
      u[2] = ends - middle;
      u[3] = g2;
    };
    const auto tap = [&](int i, int j) {
      return load(filter + (turned ? (2 - i) * 3 + 2 - j : i * 3 + j) * step);
    };
    Vec columns[3][4];
    for (int j = 0; j < 3; ++j) expand(tap(0, j), tap(1, j), tap(2, j), columns[j]);
    for (int i = 0; i < 4; ++i) {
      Vec u[4];
      expand(columns[0][i], columns[1][i], columns[2][i], u);
      for (int j = 0; j < 4; ++j) store(to + (4 * i + j) * kLanes * kLanes, u[j]);
    }
  }

  Pass pass_;
  Index batch_;
  Tiling t_;
  Index vectors_;
  TileSet<FloatProducts> products_;
  std::uint32_t layout_;
  Index rows_ = 0, tiles_ = 0, in_stride_ = 0, out_stride_ = 0;
};

template <class S>
class WinogradFilterGradient final : public DirectConvolution {
 public:
  explicit WinogradFilterGradient(const Convolution& p)
      : batch_(p.batch), t_{p.height,    p.width,        p.channels,       p.out_height,
                            p.out_width, p.out_channels, p.options.padding} {
    rows_ = rows_at_once(t_, batch_, kPositions * (t_.channels + t_.out_channels), kGradientFloats);
    tiles_ = rows_ * t_.columns;
    in_stride_ = position_stride(t_.channels * tiles_);
    out_stride_ = position_stride(t_.out_channels * tiles_);
    sum_stride_ = position_stride(t_.channels * t_.out_channels);
  }

  void run(const Tensor& x, const Tensor& dy, const Tensor&, const Tensor& out, bool accumulate,
           ChannelMoments*) const override {
    const int team = threads();
    const Index line = t_.width * t_.channels, total = batch_ * t_.rows;
    const Index partial = kPositions * sum_stride_, shares = shares_of_sums(team, partial);
    const Tensor sums = workspace<float>({shares, partial});
    const Tensor memory = workspace<float>({team, line + kPositions * (in_stride_ + out_stride_)});
    const Index chunks = (total + rows_ - 1) / rows_;
    float* partials = sums.data<float>();
    over_shares(team, shares, [&](int thread) {
      float* zeros = memory.data<float>() + thread * memory.size(1);
      std::fill_n(zeros, line, 0.0f);
      const auto* outside = reinterpret_cast<const S*>(zeros);
      const Transformed v{zeros + line, tiles_, in_stride_};
      const Transformed w{v.data + kPositions * in_stride_, tiles_, out_stride_};
      return [&, outside, v, w](Index share) {
        const Range mine = part_of(chunks, share, shares);
        float* own = partials + share * partial;
        if (mine.count() == 0) std::fill_n(own, partial, 0.0f);
        for (Index chunk = mine.first; chunk < mine.last; ++chunk) {
          const Index first = chunk * rows_, count = std::min(rows_, total - first);
          transform_inputs(t_, x.data<S>(), outside, first, count, v);
          transform_output_gradients(t_, dy.data<S>(), first, count, w);
          multiply(v, w, count * t_.columns, chunk != mine.first, own);
        }
      };
    });
    parallel_for(team > 1, t_.out_channels, [&](Index output) {
      transform_sums(partials, partial, static_cast<int>(shares), output, accumulate, out.data<float>());
    });
  }

 private:
  // sums[position][output][channel] (+)= Σ over tiles of w · v.
  void multiply(const Transformed& v, const Transformed& w, Index tiles, bool add, float* sums) const {
    const Pixels pixels{.units = 1,
                        .rows = 1,
                        .width = tiles,
                        .x_unit = 0,
                        .x_row = 0,
                        .x_step = kLanes,
                        .y_unit = 0,
                        .y_row = 0};
    const Index x_block = tiles_ * kLanes;
    Prefetch nothing;
    for (Index position = 0; position < kPositions; ++position) {
      for (Index block = 0; block < t_.channels / kLanes; block += kGradientBlocks) {
        const float* x = v.at(block, 0) + position * in_stride_;
        const bool pair = kGradientBlocks == 2 && block + 1 < t_.channels / kLanes;
        for (Index output = 0; output < t_.out_channels; output += kLanes) {
          const float* dy = w.at(output / kLanes, 0) + position * out_stride_;
          float* to = sums + position * sum_stride_ + output * t_.channels + block * kLanes;
          gradient_tiles<FloatProducts>(pair, pixels, x, x_block, dy, to, t_.channels,
                                        kGradientBlocks * kLanes, add, nothing);
        }
      }
    }
  }

  // Gᵀ u G of one output channel, with u summed over the threads.
  void transform_sums(const float* partials, Index stride, int team, Index output, bool accumulate,
                      float* gradient) const {
    const Vec half = broadcast(0.5f);
    for (Index channel = 0; channel < t_.channels; channel += kLanes) {
      Vec h[3][4];
      for (int j = 0; j < 4; ++j) {
        Vec u[4];
        for (int i = 0; i < 4; ++i) {
          const float* from = partials + (4 * i + j) * sum_stride_ + output * t_.channels + channel;
          u[i] = load(from);
          for (int part = 1; part < team; ++part) u[i] = u[i] + load(from + part * stride);
        }
        const Vec sum = half * (u[1] + u[2]), difference = half * (u[1] - u[2]);
        h[0][j] = u[0] + sum;
        h[1][j] = difference;
        h[2][j] = sum + u[3];
      }
      for (int i = 0; i < 3; ++i) {
        const Vec sum = half * (h[i][1] + h[i][2]), difference = half * (h[i][1] - h[i][2]);
        const Vec g[3] = {h[i][0] + sum, difference, sum + h[i][3]};
        for (int j = 0; j < 3; ++j) {
          float* to = gradient + (output * 9 + i * 3 + j) * t_.channels + channel;
          store(to, accumulate ? load(to) + g[j] : g[j]);
        }
      }
    }
  }

  Index batch_;
  Tiling t_;
  Index rows_ = 0, tiles_ = 0, in_stride_ = 0, out_stride_ = 0, sum_stride_ = 0;
};

}  // namespace

std::unique_ptr<DirectConvolution> detail::winograd_convolution(Pass pass, const Convolution& p) {
  if (pass == Pass::filter_gradient) return detail::make_for_storage<WinogradFilterGradient>(p.dtype, p);
  return detail::make_for_storage<WinogradForward>(p.dtype, pass, p);
}

#endif

}  // namespace tandem::cpu::TANDEM_LEVEL
