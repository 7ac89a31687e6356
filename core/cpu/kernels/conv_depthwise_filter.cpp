// Depthwise convolution, filter gradient. The sums of a tile stay in registers over a row.

#include <array>
#include <utility>

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/conv_depthwise.h"
#include "core/cpu/kernels/conv_tiles.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Convolution;
using onednn::Pass;

#ifdef TANDEM_OWN_CONVOLUTIONS

namespace {

// Taps per tile: their sums and one gradient fill the vector registers.
constexpr int kMostTaps = kManyRegisters ? 13 : 6;

// sums[tap.weight…] += Σ x[tap.source + i·16…] · dy[i·16…] over `count` outputs i, for T taps.
template <int T>
void depthwise_products(const LineTap* taps, const float* x, const float* dy, Index count, float* sums) {
  const float* at[T];
  Vec sum[T];
#pragma GCC unroll 16
  for (int t = 0; t < T; ++t) {
    at[t] = x + taps[t].source;
    sum[t] = zero();
  }
  for (Index i = 0; i < count * kLanes; i += kLanes) {
    const Vec d = load(dy + i);
#pragma GCC unroll 16
    for (int t = 0; t < T; ++t) sum[t] = fma(load(at[t] + i), d, sum[t]);
  }
#pragma GCC unroll 16
  for (int t = 0; t < T; ++t) {
    float* to = sums + taps[t].weight;
    store(to, load(to) + sum[t]);
  }
}

using DepthwiseProducts = void (*)(const LineTap*, const float*, const float*, Index, float*);
template <int... T>
constexpr std::array<DepthwiseProducts, sizeof...(T)> depthwise_products_of(
    std::integer_sequence<int, T...>) {
  return {depthwise_products<T + 1>...};
}

template <class S>
class DepthwiseFilterGradient final : public DirectConvolution {
 public:
  explicit DepthwiseFilterGradient(const Convolution& p)
      : lines_(Pass::filter_gradient, p),
        channels_(p.channels),
        batch_(p.batch),
        taps_(p.kernel_height * p.kernel_width),
        dy_panel_(p.out_width * kLanes) {
    for (Index x = 0; x < p.out_width; ++x) dy_places_.push_back(x * kLanes);
  }

  // Each thread sums its share of the rows into its own [panel][tap][16].
  void run(const Tensor& x, const Tensor& dy, const Tensor&, const Tensor& out, bool accumulate,
           ChannelMoments*) const override {
    const int team = threads();
    const Index sums = lines_.panels() * taps_ * kLanes, dy_row = lines_.group_panels() * dy_panel_;
    const Tensor memory = workspace<float>({team, sums + lines_.ring() + dy_row});
    const auto part_at = [&](int part) { return memory.data<float>() + part * memory.size(1); };
    const Index rows = lines_.rows().outputs;
    const Index image = lines_.rows().sources * lines_.columns().sources * channels_;
    const Index line = lines_.columns().outputs * channels_;
    parallel_shares(team, team, [&](Index share) {
      const auto part = static_cast<int>(share);
      float* mine = part_at(part);
      std::fill_n(mine, sums, 0.0f);
      LineRing<S> ring(lines_, channels_, mine + sums);
      float* gradients = mine + sums + lines_.ring();
      std::vector<LineTap> taps;
      for_each_unit(lines_, batch_, channels_, part, team, [&](const DepthwiseUnit& unit) {
        ring.begin(x.data<S>() + unit.image * image, unit.channels);
        for (Index row = unit.rows.first; row < unit.rows.last; ++row) {
          const float* sources = ring.reach(row);
          const S* pixels = dy.data<S>() + (unit.image * rows + row) * line;
          copy_to_panels(ChannelRow<S>{pixels, channels_, unit.channels}, std::span(dy_places_), dy_panel_,
                         gradients);
          lines_.find_taps(row, lines_.classes().front(), taps);
          add_row(taps, unit.panels.count(), sources, gradients, mine + unit.panels.first * taps_ * kLanes);
        }
      });
    });
    parallel_for(team > 1, lines_.panels(),
                 [&](Index panel) { add_parts(panel, team, part_at, accumulate, out.data<float>()); });
  }

 private:
  void add_row(std::span<const LineTap> taps, Index panels, const float* sources, const float* gradients,
               float* sums) const {
    static constexpr auto kProducts = depthwise_products_of(std::make_integer_sequence<int, kMostTaps>());
    const auto count = static_cast<Index>(taps.size()), tiles = (count + kMostTaps - 1) / kMostTaps;
    for (Index panel = 0; panel < panels; ++panel) {
      for (Index i = 0; i < tiles; ++i) {
        const Range some = part_of(count, i, tiles);
        kProducts[static_cast<std::size_t>(some.count() - 1)](
            taps.data() + some.first, sources + panel * lines_.panel(), gradients + panel * dy_panel_,
            lines_.columns().outputs, sums + panel * taps_ * kLanes);
      }
    }
  }

  // Adds the sums of all threads into [channels][taps].
  template <class PartAt>
  void add_parts(Index panel, int team, PartAt&& part_at, bool accumulate, float* out) const {
    const Index first = panel * kLanes, last = std::min(first + kLanes, channels_);
    for (Index c = first; c < last; ++c) {
      for (Index tap = 0; tap < taps_; ++tap) {
        float& total = out[c * taps_ + tap];
        if (!accumulate) total = 0.0f;
        for (int part = 0; part < team; ++part)
          total += part_at(part)[(panel * taps_ + tap) * kLanes + c - first];
      }
    }
  }

  ConvLines lines_;
  Index channels_, batch_, taps_, dy_panel_;
  std::vector<Index> dy_places_;
};

}  // namespace

std::unique_ptr<DirectConvolution> detail::depthwise_filter_gradient(const Convolution& p) {
  return make_for_storage<DepthwiseFilterGradient>(p.dtype, p);
}

#endif

}  // namespace tandem::cpu::TANDEM_LEVEL
