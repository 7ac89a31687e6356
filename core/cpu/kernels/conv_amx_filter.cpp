// Filter gradient: for each tap the product of dy, transposed, and x. Positions are the summed dimension:
// tiles of dy are [output channel][position], those of x [pair of positions][channel][2]. For taps with an
// odd offset there is a second copy of x, whose pairs begin at odd positions.
#include "core/cpu/kernels/conv_amx.h"

#if defined(TANDEM_AMX)
#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/shares.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Convolution;
using onednn::Pass;

namespace {

constexpr Index kUnitPositions = 256;
constexpr Index kMostTaps = 6;  // tiles of sums that share a tile of dy
constexpr Index kTileFloats = kTile * kTile;

// Of a product of tiles, over `count` tiles of positions.
struct Operands {
  Index count;
  const BFloat16* a[2];          // 32 elements from tile to tile
  Index a_step;                  // elements between channels
  const BFloat16* b[kMostTaps];  // 512 elements from tile to tile
  float* sums[kMostTaps];
  Bursts* ahead;  // the next unit's operands
};

// One tile of channels each, T taps: sums[t] += a[0]·b[t].
template <int T>
TANDEM_AMX_CODE void add_taps(const Operands& o) {
  constexpr long kRow = kTile * long(sizeof(float));
  const long step = o.a_step * long(sizeof(BFloat16));
  asm volatile("" ::: "memory");
#define TANDEM_EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)
#define TANDEM_LOAD(t) \
  if constexpr (t < T) _tile_loadd(t, o.sums[t], kRow);
  TANDEM_EACH(TANDEM_LOAD)
  for (Index k = 0; k < o.count; ++k) {
    _tile_loadd(6, o.a[0] + k * kTileDepth, step);
#define TANDEM_MULTIPLY(t)                            \
  if constexpr (t < T) {                              \
    _tile_loadd(7, o.b[t] + k * kTileFloats * 2, 64); \
    _tile_dpbf16ps(t, 6, 7);                          \
  }
    TANDEM_EACH(TANDEM_MULTIPLY)
    o.ahead->turn();
  }
#define TANDEM_STORE(t) \
  if constexpr (t < T) _tile_stored(t, o.sums[t], kRow);
  TANDEM_EACH(TANDEM_STORE)
#undef TANDEM_EACH
#undef TANDEM_LOAD
#undef TANDEM_MULTIPLY
#undef TANDEM_STORE
  asm volatile("" ::: "memory");
}

// One tap, 2 × 2 tiles of channels: sums[2·i + j] += a[i]·b[j].
TANDEM_AMX_CODE void add_square(const Operands& o) {
  constexpr long kRow = kTile * long(sizeof(float));
  const long step = o.a_step * long(sizeof(BFloat16));
  asm volatile("" ::: "memory");
  _tile_loadd(0, o.sums[0], kRow);
  _tile_loadd(1, o.sums[1], kRow);
  _tile_loadd(2, o.sums[2], kRow);
  _tile_loadd(3, o.sums[3], kRow);
  for (Index k = 0; k < o.count; ++k) {
    _tile_loadd(6, o.b[0] + k * kTileFloats * 2, 64);
    _tile_loadd(4, o.a[0] + k * kTileDepth, step);
    _tile_loadd(7, o.b[1] + k * kTileFloats * 2, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, o.a[1] + k * kTileDepth, step);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    o.ahead->turn();
  }
  _tile_stored(0, o.sums[0], kRow);
  _tile_stored(1, o.sums[1], kRow);
  _tile_stored(2, o.sums[2], kRow);
  _tile_stored(3, o.sums[3], kRow);
  asm volatile("" ::: "memory");
}

constexpr Index tiles_of(Index positions) { return (positions + kTileDepth - 1) / kTileDepth; }

// The copy of a unit as pairs of positions: [part][plane][odd][16 channels][pair][channel][2]. There are
// pairs that begin at even positions, and if they are read those that begin at odd ones.
template <class S>
class Pairs {
 public:
  static constexpr Index kPair = 2 * kTile;

  Pairs(PlaneRows rows, Index most, const std::vector<ConvPlanes::Tap>& taps)
      : rows_(std::move(rows)), pairs_(most / 2 + 2), read_(static_cast<std::size_t>(rows_.planes())) {
    for (const ConvPlanes::Tap& tap : taps)
      read_[static_cast<std::size_t>(tap.plane)][static_cast<std::size_t>(tap.offset % 2)] = true;
  }

  Bytes source(const S* from, const ConvUnit& unit) const { return rows_.source(from, unit); }
  // Element of a position of 16 channels, from -1 on.
  Index at(Index part, Index plane, Index channels, Index position) const {
    const Index shifted = position + 2;
    return part * part_size() +
           (((plane * 2 + shifted % 2) * (rows_.channels() / kTile) + channels) * pairs_ + shifted / 2) *
               kPair;
  }
  Index size() const { return kParts<S> * part_size(); }

  // `to` holds zeros, or another unit.
  void copy(const S* from, const ConvUnit& unit, BFloat16* to) const {
    const Pairing paired;
    rows_.over_rows(from, unit, [&](Index plane, Index position, const S* pixels, Index count, Index step) {
      for (Index odd = 0; odd < 2; ++odd) {
        if (!read_[static_cast<std::size_t>(plane)][static_cast<std::size_t>(odd)]) continue;
        const bool split = (position + odd) % 2 != 0;  // the first pixel is the second of a pair
        const Index first = split ? position - 1 : position;
        for (Index c = 0; c < rows_.channels() / kTile; ++c) {
          const S* run = pixels ? pixels + c * kTile : nullptr;
          copy_row<0>(paired, run, count, step, split, to + at(0, plane, c, first));
          if constexpr (kParts<S> == 2)
            copy_row<1>(paired, run, count, step, split, to + at(1, plane, c, first));
        }
      }
    });
  }

 private:
  Index part_size() const { return rows_.planes() * 2 * (rows_.channels() / kTile) * pairs_ * kPair; }

  template <int part>
  static void copy_row(const Pairing& paired, const S* pixels, Index count, Index step, bool split,
                       BFloat16* to) {
    if (count == 0) return;
    const auto put = [&](__m256i first, __m256i second) {
      _mm512_storeu_si512(to, paired(first, second));
      to += kPair;
    };
    const __m256i none = _mm256_setzero_si256();
    if (pixels == nullptr) {
      std::fill_n(to, (split ? 1 + count / 2 : (count + 1) / 2) * kPair, BFloat16{});
      return;
    }
    if (split) {
      put(none, load_part<part>(pixels));
      pixels += step;
      --count;
    }
    for (; count >= 2; count -= 2, pixels += 2 * step)
      put(load_part<part>(pixels), load_part<part>(pixels + step));
    if (count > 0) put(load_part<part>(pixels), none);
  }

  PlaneRows rows_;
  Index pairs_;                            // of a plane
  std::vector<std::array<bool, 2>> read_;  // by plane: at even and odd positions
};

template <class S>
class AmxFilterGradient final : public DirectConvolution {
 public:
  explicit AmxFilterGradient(const Convolution& p)
      : p_(p),
        planes_(conv_planes(Pass::filter_gradient, p)),
        units_(planes_, p.batch, kUnitPositions, shares_of(threads())),
        most_(tiles_of(units_.images * units_.rows * planes_.pitch) * kTileDepth),
        inputs_({planes_.planes, planes_, planes_.rows_after, p.height, p.width, p.channels},
                std::max(most_ + planes_.largest_offset,
                         (units_.images * units_.rows + planes_.rows_after) * planes_.pitch),
                taps()),
        outputs_({{{{0, 0}, {1, 1}, {p.out_height, p.out_width}, {0, 0}}},
                  planes_,
                  0,
                  p.out_height,
                  p.out_width,
                  p.out_channels},
                 most_, {ConvPlanes::Tap{}}),
        gradient_(p.out_channels * p.kernel_height * p.kernel_width * p.channels),
        line_(most_ % 256 == 0 ? most_ + kTileDepth : most_) {}

  void run(const Tensor& x, const Tensor& dy, const Tensor&, const Tensor& out, bool accumulate,
           ChannelMoments*) const override {
    const int team = threads();
    const Index shares = shares_of_sums(team, gradient_);
    const Index mine = inputs_.size() + outputs_.size() + line(kParts<S>, 0);
    const Tensor memory = workspace<BFloat16>({team, (mine + 31) / 32 * 32}),
                 sums = workspace<float>({shares, gradient_});
    over_shares(team, shares, [&](int thread) {
      BFloat16* const at = memory.data<BFloat16>() + thread * memory.size(1);
      std::fill_n(at, mine, BFloat16{});
      return [&, at](Index share) {
        float* const own = sums.data<float>() + share * gradient_;
        std::fill_n(own, gradient_, 0.0f);
        const AmxTiles tiles;
        const Range units = part_of(units_.count, share, shares);
        for (Index u = units.first; u < units.last; ++u) {
          const ConvUnit unit(units_, planes_, p_.batch, u);
          Bursts ahead;
          if (u + 1 < units.last) {
            const ConvUnit next(units_, planes_, p_.batch, u + 1);
            ahead = {inputs_.source(x.data<S>(), next), outputs_.source(dy.data<S>(), next), turns_of(unit)};
          }
          add(unit, x.data<S>(), dy.data<S>(), at, own, ahead);
        }
      };
    });
    reduce(sums, shares, out.data<float>(), accumulate);
  }

 private:
  const std::vector<ConvPlanes::Tap>& taps() const { return planes_.classes[0].taps; }
  // Element of a part's line for an output channel.
  Index line(Index part, Index channel) const { return (part * p_.out_channels + channel) * line_; }

  void add(const ConvUnit& unit, const S* x, const S* dy, BFloat16* memory, float* sums,
           Bursts& ahead) const {
    BFloat16* const outputs = memory + inputs_.size();
    BFloat16* const lines = outputs + outputs_.size();
    const Index positions = unit.positions(planes_), count = tiles_of(positions);
    inputs_.copy(x, unit, memory);
    outputs_.copy(dy, unit, outputs);
    for (Index part = 0; part < kParts<S>; ++part) {
      for (Index o = 0; o < p_.out_channels / kTile; ++o) {
        // A larger unit may have left outputs behind those of this one, whose last position is a zero.
        BFloat16* const pairs = outputs + outputs_.at(part, 0, o, 0);
        std::fill(pairs + positions / 2 * Pairs<S>::kPair, pairs + count * kTileFloats * 2, BFloat16{});
        for (Index t = 0; t < count; ++t)
          transpose_words(pairs + t * kTileFloats * 2, kTile, lines + line(part, o * kTile) + t * kTileDepth,
                          line_ / 2);
      }
    }
    for (const auto& [part_of_x, part_of_dy] : std::span(kPartProducts).first(kProducts<S>))
      multiply(count, memory + inputs_.at(part_of_x, 0, 0, 0), lines + line(part_of_dy, 0), sums, ahead);
  }

  // Turns of the multiplying loops for a unit.
  Index turns_of(const ConvUnit& unit) const {
    const Index wide = p_.channels / kTile, high = p_.out_channels / kTile,
                all = static_cast<Index>(taps().size());
    const Index squares = (wide / 2) * (high / 2), others = wide * high - 4 * squares;
    return kProducts<S> * tiles_of(unit.positions(planes_)) *
           (squares * all + others * ((all + kMostTaps - 1) / kMostTaps));
  }

  // Sums are tiles [tap][output block][input block][16][16].
  void multiply(Index count, const BFloat16* inputs, const BFloat16* lines, float* sums,
                Bursts& ahead) const {
    const Index wide = p_.channels / kTile, high = p_.out_channels / kTile;
    const auto sum = [&](std::size_t tap, Index o, Index c) {
      return sums + ((static_cast<Index>(tap) * high + o) * wide + c) * kTileFloats;
    };
    const auto factor = [&](std::size_t tap, Index c) {
      return inputs + inputs_.at(0, taps()[tap].plane, c, taps()[tap].offset) - inputs_.at(0, 0, 0, 0);
    };
    const auto line = [&](Index o) { return lines + o * kTile * line_; };  // of 16 channels
    const Index even_c = wide / 2 * 2, even_o = high / 2 * 2;
    for (Index o = 0; o < even_o; o += 2) {
      for (Index c = 0; c < even_c; c += 2) {
        for (std::size_t t = 0; t < taps().size(); ++t) {
          add_square({count,
                      {line(o), line(o + 1)},
                      line_,
                      {factor(t, c), factor(t, c + 1)},
                      {sum(t, o, c), sum(t, o, c + 1), sum(t, o + 1, c), sum(t, o + 1, c + 1)},
                      &ahead});
        }
      }
    }
    for (Index o = 0; o < high; ++o) {
      for (Index c = o < even_o ? even_c : 0; c < wide; ++c) {
        const std::size_t all = taps().size(), turns = (all + kMostTaps - 1) / kMostTaps;
        for (std::size_t turn = 0; turn < turns; ++turn) {
          const Range some = part_of(Index(all), Index(turn), Index(turns));
          Operands operands{count, {line(o)}, line_, {}, {}, &ahead};
          for (Index i = 0; i < some.count(); ++i) {
            operands.b[i] = factor(static_cast<std::size_t>(some.first + i), c);
            operands.sums[i] = sum(static_cast<std::size_t>(some.first + i), o, c);
          }
          constexpr void (*kAdd[])(const Operands&) = {&add_taps<1>, &add_taps<2>, &add_taps<3>,
                                                       &add_taps<4>, &add_taps<5>, &add_taps<6>};
          kAdd[some.count() - 1](operands);
        }
      }
    }
  }

  // In the order of the shares, into [O][KH][KW][C].
  void reduce(const Tensor& sums, Index shares, float* out, bool accumulate) const {
    const Index wide = p_.channels / kTile, high = p_.out_channels / kTile,
                all = static_cast<Index>(taps().size());
    parallel_for(gradient_ >= kParallelElements, all * p_.out_channels, [&](Index i) {
      const Index o = i / all, tap = i % all;
      const auto& kernel = taps()[static_cast<std::size_t>(tap)].kernel;
      float* to = out + ((o * p_.kernel_height + kernel[0]) * p_.kernel_width + kernel[1]) * p_.channels;
      const float* from =
          sums.data<float>() + (tap * high + o / kTile) * wide * kTileFloats + o % kTile * kTile;
      for (Index c = 0; c < wide; ++c) {
        Vec total = accumulate ? load(to + c * kTile) : zero();
        for (Index share = 0; share < shares; ++share)
          total = total + load(from + share * gradient_ + c * kTileFloats);
        store(to + c * kTile, total);
      }
    });
  }

  Convolution p_;
  ConvPlanes planes_;
  ConvUnits units_;
  Index most_;  // positions of a unit
  Pairs<S> inputs_, outputs_;
  Index gradient_;
  Index line_;  // positions of a line of dy; lines differ in their set of the first cache
};

}  // namespace

std::unique_ptr<DirectConvolution> detail::amx_filter_gradient(const Convolution& p) {
  if (p.dtype == DType::f16) return std::make_unique<AmxFilterGradient<Half>>(p);
  return std::make_unique<AmxFilterGradient<BFloat16>>(p);
}

}  // namespace tandem::cpu::TANDEM_LEVEL
#endif
