// Depthwise convolution, forward and input gradient. The sums of a tile stay in registers over all taps.
#include "core/cpu/kernels/conv_depthwise.h"

#include <array>
#include <utility>

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/conv_tiles.h"
#include "core/cpu/packed_weights.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Convolution;
using onednn::Pass;

#ifdef TANDEM_OWN_CONVOLUTIONS

namespace {

// Outputs per tile: their sums, one weight and one input fill the vector registers.
constexpr int kMostOutputs = kManyRegisters ? 14 : 6;

// Panels with more taps do not stay in L1 together, so they are computed one at a time.
constexpr Index kFewTaps = 9;

// Arguments common to all tiles of one panel of channels.
template <class S>
struct DepthwisePanel {
  std::span<const LineTap> taps;
  const float* sources;
  const float* weights;
  Vec bias;
  bool accumulate;
  int channels;  // channels in use, of 16
  Index step;    // distance between outputs
};

// Computes P outputs; output p reads its taps at panel.sources + p·16.
template <class S, int P>
void depthwise_tile(const DepthwisePanel<S>& panel, Index first, S* out) {
  Vec sum[P];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) sum[p] = panel.bias;
  const float* sources = panel.sources + first * kLanes;
  for (const LineTap tap : panel.taps) {
    const Vec w = load(panel.weights + tap.weight);
    const float* x = sources + tap.source;
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) sum[p] = fma(load(x + p * kLanes), w, sum[p]);
  }
  out += first * panel.step;
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p, out += panel.step) {
    if (panel.channels == kLanes) [[likely]] {
      store(out, panel.accumulate ? load(out) + sum[p] : sum[p]);
    } else {
      const Vec value = panel.accumulate ? load_first(out, panel.channels) + sum[p] : sum[p];
      store_first(out, value, panel.channels);
    }
  }
}

// tiles<S>[P - 1] computes P outputs.
template <class S>
using DepthwiseTile = void (*)(const DepthwisePanel<S>&, Index, S*);
template <class S, int... P>
constexpr std::array<DepthwiseTile<S>, sizeof...(P)> depthwise_tiles(std::integer_sequence<int, P...>) {
  return {depthwise_tile<S, P + 1>...};
}

template <class S>
class Depthwise final : public DirectConvolution {
 public:
  Depthwise(Pass pass, const Convolution& p)
      : lines_(pass, p),
        channels_(p.channels),
        batch_(p.batch),
        taps_(p.kernel_height * p.kernel_width),
        together_(taps_ <= kFewTaps ? 4 : 1),
        layout_(layout_id(KernelKey(3, channels_, taps_))) {}

  void run(const Tensor& in, const Tensor& filter, const Tensor& bias, const Tensor& out, bool accumulate,
           ChannelMoments*) const override {
    const PackedWeights weights(filter, layout_,
                                static_cast<std::size_t>(lines_.panels() * filter_()) * sizeof(float),
                                [&](void* to) { pack(filter.data<S>(), static_cast<float*>(to)); });
    const Work work{weights.floats(), bias.defined() ? bias.data<float>() : nullptr, accumulate};
    const int team = threads();
    const Tensor memory = workspace<float>({team, lines_.ring()});
    const Index rows = lines_.rows().outputs;
    const Index image = lines_.rows().sources * lines_.columns().sources * channels_;
    const Index line = lines_.columns().outputs * channels_;
    parallel_shares(team, team, [&](Index share) {
      const auto part = static_cast<int>(share);
      LineRing<S> ring(lines_, channels_, memory.data<float>() + part * lines_.ring());
      std::vector<std::vector<LineTap>> taps(lines_.classes().size());
      for_each_unit(lines_, batch_, channels_, part, team, [&](const DepthwiseUnit& unit) {
        ring.begin(in.data<S>() + unit.image * image, unit.channels);
        for (Index row = unit.rows.first; row < unit.rows.last; ++row) {
          const float* sources = ring.reach(row);
          for (std::size_t c = 0; c < taps.size(); ++c) lines_.find_taps(row, lines_.classes()[c], taps[c]);
          compute(work, unit.panels, taps, sources, out.data<S>() + (unit.image * rows + row) * line);
        }
      });
    });
  }

 private:
  // Arguments common to all rows.
  struct Work {
    const float* weights;
    const float* bias;  // or null
    bool accumulate;
  };

  Index filter_() const { return taps_ * kLanes; }

  // Packs [channels][taps] as [panel][tap][16], padded with zeros to whole panels.
  void pack(const S* filter, float* to) const {
    std::fill_n(to, lines_.panels() * filter_(), 0.0f);
    for (Index c = 0; c < channels_; ++c) {
      for (Index tap = 0; tap < taps_; ++tap)
        to[c / kLanes * filter_() + tap * kLanes + c % kLanes] = convert<float>(filter[c * taps_ + tap]);
    }
  }

  // Computes one row in tiles of nearly equal size. Groups of panels and all pixel classes compute a tile
  // before the next tile starts, so that stores stay close in memory.
  void compute(const Work& work, Range panels, const std::vector<std::vector<LineTap>>& taps,
               const float* sources, S* out) const {
    static constexpr auto kTiles = depthwise_tiles<S>(std::make_integer_sequence<int, kMostOutputs>());
    const Index tiles = (lines_.classes().front().count + kMostOutputs - 1) / kMostOutputs;
    for (Index first = panels.first; first < panels.last; first += together_) {
      const Index last = std::min(first + together_, panels.last);
      for (Index i = 0; i < tiles; ++i) {
        for (Index panel = first; panel < last; ++panel) {
          DepthwisePanel<S> shared = panel_of(work, panel, sources + (panel - panels.first) * lines_.panel());
          for (std::size_t k = 0; k < taps.size(); ++k) {
            const ColumnClass& c = lines_.classes()[k];
            const Range outputs = part_of(c.count, i, tiles);
            if (outputs.count() == 0) continue;
            shared.taps = taps[k];
            kTiles[static_cast<std::size_t>(outputs.count() - 1)](shared, outputs.first,
                                                                  out + c.first * channels_ + panel * kLanes);
          }
        }
      }
    }
  }

  DepthwisePanel<S> panel_of(const Work& work, Index panel, const float* sources) const {
    const Index channel = panel * kLanes;
    const int channels = static_cast<int>(std::min<Index>(kLanes, channels_ - channel));
    const Vec bias = !work.bias           ? zero()
                     : channels == kLanes ? load(work.bias + channel)
                                          : load_first(work.bias + channel, channels);
    return {{},
            sources,
            work.weights + panel * filter_(),
            bias,
            work.accumulate,
            channels,
            lines_.classes().front().step * channels_};
  }

  ConvLines lines_;
  Index channels_, batch_, taps_;
  Index together_;  // panels computed together per tile
  std::uint32_t layout_;
};

}  // namespace

std::unique_ptr<DirectConvolution> detail::depthwise_convolution(Pass pass, const Convolution& p) {
  if (pass == Pass::filter_gradient) return depthwise_filter_gradient(p);
  return make_for_storage<Depthwise>(p.dtype, pass, p);
}

#endif

}  // namespace tandem::cpu::TANDEM_LEVEL
