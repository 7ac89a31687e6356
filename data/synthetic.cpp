#include "data/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/cpu/parallel.h"
#include "core/error.h"
#include "core/random.h"
#include "data/limits.h"

namespace tandem::datasets {

namespace {

constexpr int kWaves = 4;
constexpr std::size_t kMaxBytes = std::size_t{64} << 30;

// Pattern of a class: low-frequency waves per channel, in [0.2, 0.8], periodic in both directions.
std::vector<float> class_pattern(const SyntheticOptions& options, Index which) {
  std::vector<float> pattern(static_cast<std::size_t>(options.height * options.width * options.channels),
                             0.5F);
  RandomStream random({.seed = options.seed,
                       .purpose = RandomPurpose::synthetic_data,
                       .call = static_cast<std::uint32_t>(which),
                       .micro_batch = 1});
  for (Index c = 0; c < options.channels; ++c) {
    for (int wave = 0; wave < kWaves; ++wave) {
      const double fy = random.below(4), fx = random.below(4);
      const double phase = random.uniform(0.0F, 2 * std::numbers::pi_v<float>);
      for (Index y = 0; y < options.height; ++y) {
        for (Index x = 0; x < options.width; ++x) {
          const double angle = 2 * std::numbers::pi *
                               (fy * static_cast<double>(y) / static_cast<double>(options.height) +
                                fx * static_cast<double>(x) / static_cast<double>(options.width));
          pattern[static_cast<std::size_t>((y * options.width + x) * options.channels + c)] +=
              static_cast<float>(0.3 / kWaves * std::sin(angle + phase));
        }
      }
    }
  }
  return pattern;
}

// Approximately normal with variance 1: the sum of a word's four bytes (Irwin–Hall).
float noise_of(std::uint32_t word) {
  const auto sum =
      static_cast<float>((word & 0xff) + (word >> 8 & 0xff) + (word >> 16 & 0xff) + (word >> 24));
  return (sum - 510.0F) * (1.0F / 147.8005F);
}

void draw_sample(const SyntheticOptions& options, const std::vector<float>& pattern, Index index,
                 std::uint8_t* to) {
  const RandomKey key{.seed = options.seed,
                      .purpose = RandomPurpose::synthetic_data,
                      .call = static_cast<std::uint32_t>(index),
                      .step = options.split};
  const auto shift = philox(key, 0);
  // Up to an eighth of the image, so that samples of a class overlap.
  const Index dy = shift[0] % (options.height / 8 + 1), dx = shift[1] % (options.width / 8 + 1);
  const auto noise = static_cast<float>(options.noise);
  const Index count = options.height * options.width * options.channels;
  std::array<std::uint32_t, 4> words{};
  for (Index i = 0; i < count; ++i) {
    if (i % 4 == 0) words = philox(key, static_cast<std::uint32_t>(1 + i / 4));
    const Index c = i % options.channels, pixel = i / options.channels;
    const Index y = (pixel / options.width + dy) % options.height,
                x = (pixel % options.width + dx) % options.width;
    const float value = pattern[static_cast<std::size_t>((y * options.width + x) * options.channels + c)];
    to[i] = static_cast<std::uint8_t>(
        std::clamp(255.0F * (value + noise * noise_of(words[i % 4])) + 0.5F, 0.0F, 255.0F));
  }
}

Index or_default(Index value, Index standard) { return value > 0 ? value : standard; }

Splits open_synthetic(const SyntheticSetOptions& own, const SetOptions& common) {
  const DatasetInfo info = own.info();
  const Shape& shape = info.sample_shape;
  SyntheticOptions synthetic{.count = or_default(common.train_size, 5000) + common.validation_size,
                             .classes = info.classes,
                             .height = shape[0],
                             .width = shape[1],
                             .channels = shape[2],
                             .noise = own.noise,
                             .seed = common.seed()};
  const auto train = make_synthetic(synthetic);
  train->set_statistics(statistics_of(*train, 1000));
  synthetic.count = or_default(common.test_size, 1000);
  synthetic.split = 1;
  const auto test = make_synthetic(synthetic);
  test->set_statistics(train->info().statistics);
  return {.train = train, .test = test, .validation = {}};
}

}  // namespace

std::shared_ptr<InMemoryDataset> make_synthetic(const SyntheticOptions& options) {
  const std::array<Index, 4> extents = {options.count, options.height, options.width, options.channels};
  for (const Index extent : extents)
    require(extent > 0, "synthetic", "an extent is {}, expected at least 1", extent);
  require(options.classes > 0 && options.count <= kMaxSamples, "synthetic", "{} classes and {} samples",
          options.classes, options.count);
  const std::size_t bytes = checked_bytes(extents, 1, "synthetic");
  require(bytes <= kMaxBytes, "synthetic", "{} bytes of images, the limit is {}", bytes, kMaxBytes);
  const Tensor images =
      Tensor::empty(Shape{std::span<const Index>(extents)}, {.dtype = DType::u8, .kind = MemoryKind::data});
  const Tensor labels = Tensor::empty({options.count}, {.dtype = DType::i64, .kind = MemoryKind::data});
  const Index sample = static_cast<Index>(bytes) / options.count;
  std::vector<std::vector<float>> patterns(
      static_cast<std::size_t>(std::min(options.classes, options.count)));
  cpu::parallel_for(true, patterns.size(),
                    [&](std::size_t k) { patterns[k] = class_pattern(options, static_cast<Index>(k)); });
  cpu::parallel_for(true, options.count, [&](Index i) {
    labels.data<std::int64_t>()[i] = i % options.classes;
    draw_sample(options, patterns[static_cast<std::size_t>(i % options.classes)], i,
                images.data<std::uint8_t>() + i * sample);
  });
  DatasetInfo info{.name = "synthetic", .classes = options.classes};
  return std::make_shared<InMemoryDataset>(images, labels, std::move(info), "synthetic");
}

DatasetInfo SyntheticSetOptions::info() const {
  const Index side = or_default(image_size, 32);
  return {.name = "synthetic",
          .sample_shape = {side, side, or_default(channels, 3)},
          .classes = or_default(classes, 10)};
}

LabelledRegistry::Entry synthetic_entry() {
  return LabelledRegistry::entry<SyntheticSetOptions>(
      "synthetic", "learnable random patterns, generated in memory",
      options::Describe<SyntheticSetOptions>()
          .key("image_size", &SyntheticSetOptions::image_size, "side of the images in pixels; 0: 32",
               {.min = 0, .max = 65536})
          .key("channels", &SyntheticSetOptions::channels, "of the images; 0: 3", {.min = 0, .max = 65536})
          .key("classes", &SyntheticSetOptions::classes, "number of classes; 0: 10",
               {.min = 0, .max = 16777216})
          .key("noise", &SyntheticSetOptions::noise, "standard deviation of the noise, 1 is full brightness",
               {.min = 0.0, .max = 10.0}),
      open_synthetic);
}

}  // namespace tandem::datasets
