// Forward and input gradient. Outputs are 64 positions × 16 channels or 32 × 32 at a time, summed in tiles
// over the taps and channels of a group whose weights stay in the first cache.
//
// Images are copied in blocks of 32 channels. If 16 channels remain, their block holds them for each position
// and the next, so that a tile multiplies two taps. If a tap is alone, its neighbour is multiplied by zero:
// infinite values then give NaN in outputs that do not read them.
#include "core/cpu/kernels/conv_amx.h"

#if defined(TANDEM_AMX)
#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/prefetch.h"
#include "core/cpu/kernels/shares.h"
#include "core/cpu/packed_weights.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Convolution;
using onednn::Pass;

namespace {

// Positions of a unit: with more than 32 channels weights, too, come from the second cache, where more
// positions use them.
constexpr Index kFewPositions = 256, kManyPositions = 1024;
constexpr Index kGroup = 18;         // most chunks of a group: 36 KiB of weights for 32 channels
constexpr Index kSums = 64 * kTile;  // floats of a block of sums

constexpr Index kBlock = kTileDepth;  // elements of a position in a block

// The copy of a unit: [part][block][plane][position][32].
template <class S>
class Panel {
 public:
  Panel(PlaneRows rows, const ConvPlanes& planes, const ConvUnits& units)
      : rows_(std::move(rows)),
        positions_(std::max(round_up(units.images * units.rows * planes.pitch) + planes.largest_offset,
                            (units.images * units.rows + planes.rows_after) * planes.pitch) +
                   2) {}

  // Positions of whole blocks of outputs.
  static Index round_up(Index positions) { return (positions + 4 * kTile - 1) / (4 * kTile) * 4 * kTile; }

  Index blocks() const { return (rows_.channels() + kBlock - 1) / kBlock; }
  bool is_narrow(Index block) const { return rows_.channels() - block * kBlock < kBlock; }
  // Element of a position of a plane's block; there is room for half a block before the first.
  Index at(Index part, Index block, Index plane, Index position) const {
    return (((part * blocks() + block) * rows_.planes() + plane) * positions_ + position + 1) * kBlock;
  }
  Index size() const { return at(kParts<S>, 0, 0, 0); }
  Bytes source(const S* from, const ConvUnit& unit) const { return rows_.source(from, unit); }

  // `panel` holds zeros, or another unit.
  void copy(const S* from, const ConvUnit& unit, BFloat16* panel) const {
    rows_.over_rows(from, unit, [&](Index plane, Index position, const S* pixels, Index count, Index step) {
      copy_part<0>(pixels, count, step, panel + at(0, 0, plane, position));
      if constexpr (kParts<S> == 2) copy_part<1>(pixels, count, step, panel + at(1, 0, plane, position));
    });
  }

 private:
  template <int part>
  void copy_part(const S* pixels, Index count, Index step, BFloat16* to) const {
    for (Index b = 0; b < blocks(); ++b, to += at(0, 1, 0, 0) - at(0, 0, 0, 0)) {
      if (pixels == nullptr) {
        const Index before = is_narrow(b) ? kTile : 0;
        std::fill_n(to - before, before + count * kBlock, BFloat16{});
      } else if (is_narrow(b)) {
        copy_narrow<part>(pixels + b * kBlock, count, step, to);
      } else {
        const S* at = pixels + b * kBlock;
        for (Index x = 0; x < count; ++x, at += step)
          _mm512_storeu_si512(to + x * kBlock, joined(load_part<part>(at), load_part<part>(at + kTile)));
      }
    }
  }

  template <int part>
  static void copy_narrow(const S* from, Index count, Index step, BFloat16* to) {
    if (count == 0) return;
    __m256i pixel = load_part<part>(from);
    store_words(to - kTile, pixel);
    for (Index x = 1; x < count; ++x) {
      const __m256i next = load_part<part>(from + x * step);
      _mm512_storeu_si512(to + (x - 1) * kBlock, joined(pixel, next));
      pixel = next;
    }
    store_words(to + (count - 1) * kBlock, pixel);
  }

  PlaneRows rows_;
  Index positions_;  // of a plane
};

// 32 factors of each sum: those of one tap, or 16 of each of two taps that are one position apart.
struct Chunk {
  Index source;  // element in the panel for output position 0
  int part;      // of the weights
  struct Half {
    Index tap = -1, channel = 0;  // tap -1: zeros
  } halves[2];
};

// Chunks of one class of outputs.
struct Chunks {
  std::vector<Chunk> all;
  Index weights = 0;  // element of its packed filter
};

// The work beside products: stores the sums of the previous block, and prefetches the next unit.
template <class S>
class Beside {
 public:
  Beside(Index channels, bool accumulate, Bursts ahead)
      : channels_(channels), accumulate_(accumulate), ahead_(ahead) {}

  // Outputs of the following blocks, and their bias or null.
  void begin(S* out, const float* bias) {
    out_ = out;
    bias_ = bias;
  }
  // `rows` rows of N·16 sums are to be stored at the pixels `places`; -1: nowhere.
  void add(const float* sums, const std::int32_t* places, Index rows) {
    sums_ = sums;
    places_ = places;
    rows_ = rows;
  }
  Index rows() const { return rows_; }

  template <int N>
  void turn(Index rows) {
    ahead_.turn();
    store<N>(rows);
  }

  // The next `rows` rows, or as many as there are.
  template <int N>
  void store(Index rows) {
    rows = std::min(rows, rows_);
    if (bias_ == nullptr && !accumulate_) {
      store_rows<N, true>(rows);
    } else {
      store_rows<N, false>(rows);
    }
    sums_ += rows * N * kTile;
    places_ += rows;
    rows_ -= rows;
  }

 private:
  template <int N, bool plain>
  void store_rows(Index count) {
    // Copies: stores of elements may change members, as far as the compiler knows.
    const float *const from = sums_, *const offset = bias_;
    const std::int32_t* const places = places_;
    S *const out = out_, *const nowhere = nowhere_;
    const Index step = channels_;
    const bool add = accumulate_;
    for (Index r = 0; r < count; ++r) {
      const Index place = places[r];
      S* const to = place < 0 ? nowhere : out + place * step;
      for (int n = 0; n < N; ++n) {
        Vec sum = load(from + (r * N + n) * kTile);
        if constexpr (!plain) {
          if (offset) sum = sum + load(offset + n * kTile);
          if (add) sum = sum + load(to + n * kTile);
        }
        TANDEM_LEVEL::store(to + n * kTile, sum);
      }
    }
  }

  Index channels_;
  bool accumulate_;
  Bursts ahead_;
  S* out_ = nullptr;
  const float *bias_ = nullptr, *sums_ = nullptr;
  const std::int32_t* places_ = nullptr;
  Index rows_ = 0;
  alignas(64) S nowhere_[2 * kTile] = {};
};

// out[16·M][16·N] = Σ a·b over `count` chunks, or += if `accumulate`. a: the panel at the first position; b:
// tiles of 16 pairs of factors × 16·N outputs.
template <int M, int N, class S>
TANDEM_AMX_CODE void multiply_chunks(const Chunk* chunk, Index count, const BFloat16* panel,
                                     const BFloat16* b, float* out, bool accumulate, Beside<S>& beside) {
  static_assert(M * N <= 4);
  constexpr Index kColumns = N * kTile;
  constexpr long kOut = kColumns * long(sizeof(float)), kB = kColumns * 2 * long(sizeof(BFloat16));
  asm volatile("" ::: "memory");  // GCC does not know the memory of its intrinsics
  const auto row = [&](int m, int n) { return out + m * kTile * kColumns + n * kTile; };
  if (accumulate) {
    _tile_loadd(0, row(0, 0), kOut);
    if constexpr (M * N > 1) _tile_loadd(1, row(1 / N, 1 % N), kOut);
    if constexpr (M * N > 2) _tile_loadd(2, row(2 / N, 2 % N), kOut);
    if constexpr (M * N > 3) _tile_loadd(3, row(3 / N, 3 % N), kOut);
  } else {
    _tile_zero(0);
    if constexpr (M * N > 1) _tile_zero(1);
    if constexpr (M * N > 2) _tile_zero(2);
    if constexpr (M * N > 3) _tile_zero(3);
  }
  constexpr long step = kBlock * long(sizeof(BFloat16));
  constexpr Index tile = kTile * kBlock;
  const Index rows = count > 0 ? (beside.rows() + count - 1) / count : 0;
  for (const Chunk* const end = chunk + count; chunk != end; ++chunk, b += kTile * kColumns * 2) {
    const BFloat16* a = panel + chunk->source;
    _tile_loadd(6, b, kB);
    _tile_loadd(4, a, step);
    if constexpr (N == 2) {
      _tile_loadd(7, b + 2 * kTile, kB);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (M > 1) _tile_loadd(5, a + tile, step);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (M > 1) {
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
    } else {
      if constexpr (M > 1) _tile_loadd(5, a + tile, step);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (M > 2) _tile_loadd(4, a + 2 * tile, step);
      if constexpr (M > 1) _tile_dpbf16ps(1, 5, 6);
      if constexpr (M > 3) _tile_loadd(5, a + 3 * tile, step);
      if constexpr (M > 2) _tile_dpbf16ps(2, 4, 6);
      if constexpr (M > 3) _tile_dpbf16ps(3, 5, 6);
    }
    beside.template turn<N>(rows);
  }
  _tile_stored(0, row(0, 0), kOut);
  if constexpr (M * N > 1) _tile_stored(1, row(1 / N, 1 % N), kOut);
  if constexpr (M * N > 2) _tile_stored(2, row(2 / N, 2 % N), kOut);
  if constexpr (M * N > 3) _tile_stored(3, row(3 / N, 3 % N), kOut);
  asm volatile("" ::: "memory");
  beside.template store<N>(beside.rows());
}

template <class S>
class AmxConvolution final : public DirectConvolution {
 public:
  AmxConvolution(Pass pass, const Convolution& p)
      : pass_(pass),
        p_(p),
        planes_(conv_planes(pass, p_)),
        inputs_(pass == Pass::forward ? p.channels : p.out_channels),
        outputs_(pass == Pass::forward ? p.out_channels : p.channels),
        units_(planes_, p_.batch, inputs_ > kBlock ? kManyPositions : kFewPositions, shares_of(threads())),
        panel_(
            {planes_.planes, planes_, planes_.rows_after, pass == Pass::forward ? p_.height : p_.out_height,
             pass == Pass::forward ? p_.width : p_.out_width, inputs_},
            planes_, units_),
        layout_(
            layout_id(KernelKey(2, kParts<S>, pass, p.out_channels, p.kernel_height, p.kernel_width,
                                p.channels, p.options.stride[0], p.options.stride[1], p.options.padding[0],
                                p.options.padding[1], p.options.dilation[0], p.options.dilation[1]))) {
    Index most = 0;
    for (const ConvPlanes::Class& c : planes_.classes) {
      chunks_.push_back({chunks_of(c), weights_});
      const auto count = static_cast<Index>(chunks_.back().all.size());
      weights_ += count * kTileDepth * outputs_;
      most = std::max(most, count);
    }
    kept_sums_ = most > kGroup;
  }

  void run(const Tensor& in, const Tensor& filter, const Tensor& bias, const Tensor& out, bool accumulate,
           ChannelMoments*) const override {
    const PackedWeights weights(filter, layout_, static_cast<std::size_t>(weights_) * sizeof(BFloat16),
                                [&](void* to) { pack(filter.data<S>(), static_cast<BFloat16*>(to)); });
    const Work work{static_cast<const BFloat16*>(weights.raw()),
                    bias.defined() ? bias.data<float>() : nullptr, accumulate, out.data<S>()};
    const int team = threads();
    const Index shares = std::min(shares_of(team), std::max<Index>(units_.count, team));
    const Index positions = Panel<S>::round_up(units_.images * units_.rows * planes_.pitch),
                classes = Index(chunks_.size());
    const Index sums = kept_sums_ ? positions * 2 * kTile : 2 * kSums;
    const Index panel_size = (panel_.size() + 31) / 32 * 32;
    const Tensor panels = workspace<BFloat16>({team, panel_size}), blocks = workspace<float>({team, sums}),
                 places = workspace<std::int32_t>({classes, positions});
    for (Index c = 0; c < classes; ++c)
      place(planes_.classes[std::size_t(c)], places.data<std::int32_t>() + c * positions);
    over_shares(team, shares, [&](int thread) {
      BFloat16* panel = panels.data<BFloat16>() + thread * panel_size;
      std::fill_n(panel, panel_size, BFloat16{});
      return [&, panel, thread](Index share) {
        const AmxTiles tiles;
        const Range units = part_of(units_.count, share, shares);
        for (Index u = units.first; u < units.last; ++u) {
          const ConvUnit unit(units_, planes_, p_.batch, u);
          Bytes ahead;
          if (u + 1 < units.last)
            ahead = panel_.source(in.data<S>(), ConvUnit(units_, planes_, p_.batch, u + 1));
          panel_.copy(in.data<S>(), unit, panel);
          compute(work, unit, panel, blocks.data<float>() + thread * sums, places.data<std::int32_t>(),
                  positions, ahead);
        }
      };
    });
  }

 private:
  struct Work {
    const BFloat16* weights;
    const float* bias;  // may be null
    bool accumulate;
    S* out;
  };

  std::vector<Chunk> chunks_of(const ConvPlanes::Class& c) const {
    std::vector<Chunk> all;
    for (int product = 0; product < kProducts<S>; ++product) {
      const auto [part, part_of_weights] = kPartProducts[static_cast<std::size_t>(product)];
      for (Index b = 0; b < panel_.blocks(); ++b) {
        const Index channel = b * kBlock;
        for (std::size_t t = 0; t < c.taps.size(); ++t) {
          const ConvPlanes::Tap& tap = c.taps[t];
          Chunk chunk{panel_.at(part, b, tap.plane, tap.offset),
                      part_of_weights,
                      {{static_cast<Index>(t), channel}, {}}};
          if (!panel_.is_narrow(b)) {
            chunk.halves[1] = {static_cast<Index>(t), channel + kTile};
          } else if (t + 1 < c.taps.size() && c.taps[t + 1].plane == tap.plane &&
                     c.taps[t + 1].offset == tap.offset + 1) {
            chunk.halves[1] = {static_cast<Index>(++t), channel};
          }
          all.push_back(chunk);
        }
      }
    }
    return all;
  }

  // For each class and 32 outputs, tiles [chunk][pair of factors][output][2].
  void pack(const S* filter, BFloat16* to) const {
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      const Chunks& chunks = chunks_[i];
      const auto count = static_cast<Index>(chunks.all.size());
      parallel_for(weights_ >= 64 * 64 * 9, (outputs_ + 2 * kTile - 1) / (2 * kTile), [&](Index block) {
        const Index first = block * 2 * kTile;
        const Index width = std::min(2 * kTile, outputs_ - first);
        BFloat16* at = to + chunks.weights + first * count * kTileDepth;
        for (const Chunk& chunk : chunks.all) {
          const auto pack_part =
              chunk.part == 0 ? &AmxConvolution::pack_tile<0> : &AmxConvolution::pack_tile<kParts<S> - 1>;
          for (Index n = 0; n < width; n += kTile)
            (this->*pack_part)(filter, planes_.classes[i], chunk, first + n, at + 2 * n, 2 * width);
          at += width * kTileDepth;
        }
      });
    }
  }

  template <int part>
  void pack_tile(const S* filter, const ConvPlanes::Class& c, const Chunk& chunk, Index output, BFloat16* to,
                 Index step) const {
    const Index line =
        p_.kernel_height * p_.kernel_width * p_.channels;  // between output channels of the filter
    alignas(64) BFloat16 held[kTile][kTileDepth] = {};
    const Pairing paired;
    for (int h = 0; h < 2; ++h) {
      const Chunk::Half& half = chunk.halves[h];
      BFloat16* const pairs = to + h * kTile / 2 * step;
      if (half.tap < 0) {
        for (Index pair = 0; pair < kTile / 2; ++pair)
          std::fill_n(pairs + pair * step, kTileDepth, BFloat16{});
        continue;
      }
      const auto& kernel = c.taps[static_cast<std::size_t>(half.tap)].kernel;
      const S* at = filter + (kernel[0] * p_.kernel_width + kernel[1]) * p_.channels;
      if (pass_ == Pass::forward) {
        for (Index o = 0; o < kTile; ++o)
          store_words(held[o] + h * kTile, load_part<part>(at + (output + o) * line + half.channel));
      } else {
        for (Index pair = 0; pair < kTile / 2; ++pair) {
          const S* lines = at + (half.channel + 2 * pair) * line + output;
          _mm512_storeu_si512(pairs + pair * step,
                              paired(load_part<part>(lines), load_part<part>(lines + line)));
        }
      }
    }
    if (pass_ == Pass::forward) transpose_words(held, kTile, to, step / 2);
  }

  Index height() const { return pass_ == Pass::forward ? p_.out_height : p_.height; }
  Index width() const { return pass_ == Pass::forward ? p_.out_width : p_.width; }

  // Turns of the multiplying loop for a unit.
  Index turns_of(Index positions) const {
    const Index steps = weights_ / kTileDepth / kTile;  // of all classes and blocks of 16 outputs
    return outputs_ > kTile ? (positions + 2 * kTile - 1) / (2 * kTile) * (steps + 1) / 2
                            : (positions + 4 * kTile - 1) / (4 * kTile) * steps;
  }

  // places[position] of the first unit: the pixel of the output, or -1.
  void place(const ConvPlanes::Class& c, std::int32_t* places) const {
    std::fill_n(places, Panel<S>::round_up(units_.images * units_.rows * planes_.pitch), -1);
    const Index rows = units_.blocks == 1 ? c.count[0] : units_.rows;
    for (Index n = 0; n < units_.images; ++n) {
      for (Index y = 0; y < rows; ++y) {
        std::int32_t* row = places + (n * planes_.rows + y) * planes_.pitch;
        const Index pixel = (n * height() + c.first[0] + y * c.step[0]) * width() + c.first[1];
        for (Index x = 0; x < c.count[1]; ++x) row[x] = static_cast<std::int32_t>(pixel + x * c.step[1]);
      }
    }
  }

  void compute(const Work& work, const ConvUnit& unit, const BFloat16* panel, float* sums,
               const std::int32_t* places, Index places_step, Bytes ahead) const {
    const Index positions = unit.positions(planes_);
    Beside<S> beside(outputs_, work.accumulate, {ahead, {}, turns_of(positions)});
    for (std::size_t i = 0; i < chunks_.size(); ++i, places += places_step) {
      const ConvPlanes::Class& c = planes_.classes[i];
      const Chunks& chunks = chunks_[i];
      const auto count = static_cast<Index>(chunks.all.size());
      const Index last_row = units_.blocks == 1 ? planes_.rows : std::min(unit.rows.last, c.count[0]);
      const Index stored = unit.images.count() * (last_row - unit.rows.first) * planes_.pitch;
      S* const out =
          work.out + (unit.images.first * height() + unit.rows.first * c.step[0]) * width() * outputs_;
      for (Index first = 0; first < outputs_; first += 2 * kTile) {
        const BFloat16* weights = work.weights + chunks.weights + first * count * kTileDepth;
        const bool pair = outputs_ - first > kTile;
        const Index rows = (pair ? 2 : 4) * kTile, columns = (pair ? 2 : 1) * kTile;
        const Index groups = std::max<Index>(1, (count + kGroup - 1) / kGroup);
        beside.begin(out + first, work.bias ? work.bias + first : nullptr);
        for (Index g = 0; g < groups; ++g) {
          const Range group = part_of(count, g, groups);
          const BFloat16* factors = weights + group.first * columns * kTileDepth;
          for (Index m = 0; m < positions; m += rows) {
            float* block = kept_sums_ ? sums + m * columns : sums + (m / rows % 2) * kSums;
            (pair ? multiply_chunks<2, 2, S> : multiply_chunks<4, 1, S>)(chunks.all.data() + group.first,
                                                                         group.count(), panel + m * kBlock,
                                                                         factors, block, g > 0, beside);
            if (g + 1 < groups) continue;
            beside.add(block, places + m, std::clamp<Index>(stored - m, 0, rows));
          }
        }
        if (pair) {
          beside.template store<2>(beside.rows());
        } else {
          beside.template store<1>(beside.rows());
        }
      }
    }
  }

  Pass pass_;
  Convolution p_;
  ConvPlanes planes_;
  Index inputs_, outputs_;
  ConvUnits units_;
  Panel<S> panel_;
  std::uint32_t layout_;
  std::vector<Chunks> chunks_;  // by class
  Index weights_ = 0;           // elements of the packed filter
  bool kept_sums_ = false;      // sums of all positions of a unit are kept from group to group
};

}  // namespace

std::unique_ptr<DirectConvolution> detail::amx_convolution(Pass pass, const Convolution& p) {
  if (p.dtype == DType::f16) return std::make_unique<AmxConvolution<Half>>(pass, p);
  return std::make_unique<AmxConvolution<BFloat16>>(pass, p);
}

}  // namespace tandem::cpu::TANDEM_LEVEL
#endif
