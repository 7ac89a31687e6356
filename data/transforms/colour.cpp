// Transforms that change pixel values: colour jitter and cutout.
#include <algorithm>
#include <array>

#include "core/error.h"
#include "data/transforms/transform.h"

namespace tandem::datasets {

namespace {

struct JitterOptions {
  double brightness = 0.4, contrast = 0.4, saturation = 0.4;
};

struct CutoutOptions {
  Index size = 8, holes = 1;
  double probability = 1;
};

// Luma of ITU-R BT.601.
constexpr std::array<float, 3> kLuma = {0.299F, 0.587F, 0.114F};

float grey_of(const float* pixel, Index channels) {
  if (channels == 3) return kLuma[0] * pixel[0] + kLuma[1] * pixel[1] + kLuma[2] * pixel[2];
  float sum = 0;
  for (Index c = 0; c < channels; ++c) sum += pixel[c];
  return sum / static_cast<float>(channels);
}

// Scales brightness, contrast and saturation by random factors in [1 − strength, 1 + strength], in random
// order, clipping after each. Contrast blends with the image's mean grey, saturation with the pixel's own.
class ColourJitter final : public Transform {
 public:
  explicit ColourJitter(const JitterOptions& options)
      : strengths_{options.brightness, options.contrast, options.saturation} {}

  void apply(ImageWork& image, RandomStream& random) const override {
    std::array<int, 3> order = {0, 1, 2};
    for (std::uint32_t i = 3; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    std::array<float, 3> factors;
    for (int i = 0; i < 3; ++i) {
      const auto strength = static_cast<float>(strengths_[i]);
      factors[i] = random.uniform(std::max(0.0F, 1.0F - strength), 1.0F + strength);
    }
    const std::span<float> pixels = image.pixels();
    for (const int what : order) {
      if (strengths_[what] == 0) continue;
      if (what == 0) {
        brighten(pixels, factors[0], image.unit());
      } else if (what == 1) {
        contrast(pixels, image.channels(), factors[1], image.unit());
      } else {
        saturate(pixels, image.channels(), factors[2], image.unit());
      }
    }
  }

 private:
  static void brighten(std::span<float> pixels, float factor, float unit) {
    for (float& value : pixels) value = std::clamp(value * factor, 0.0F, unit);
  }
  static void contrast(std::span<float> pixels, Index channels, float factor, float unit) {
    double sum = 0;
    for (std::size_t i = 0; i < pixels.size(); i += static_cast<std::size_t>(channels)) {
      sum += grey_of(&pixels[i], channels);
    }
    const auto mean =
        static_cast<float>(sum * static_cast<double>(channels) / static_cast<double>(pixels.size()));
    for (float& value : pixels) value = std::clamp(mean + (value - mean) * factor, 0.0F, unit);
  }
  static void saturate(std::span<float> pixels, Index channels, float factor, float unit) {
    if (channels == 1) return;
    for (std::size_t i = 0; i < pixels.size(); i += static_cast<std::size_t>(channels)) {
      const float grey = grey_of(&pixels[i], channels);
      for (Index c = 0; c < channels; ++c) {
        float& value = pixels[i + static_cast<std::size_t>(c)];
        value = std::clamp(grey + (value - grey) * factor, 0.0F, unit);
      }
    }
  }

  std::array<double, 3> strengths_;
};

// Fills squares around random centres with the mean (DeVries and Taylor 2017); they may cross the border.
class Cutout final : public Transform {
 public:
  explicit Cutout(const CutoutOptions& options)
      : size_(options.size), holes_(options.holes), probability_(options.probability) {}

  void apply(ImageWork& image, RandomStream& random) const override {
    if (random.uniform() >= probability_) return;
    for (Index i = 0; i < holes_; ++i) {
      const Index y = random.below(static_cast<std::uint32_t>(image.height()));
      const Index x = random.below(static_cast<std::uint32_t>(image.width()));
      image.cut_hole({y - size_ / 2, x - size_ / 2, size_, size_});
    }
  }

 private:
  Index size_, holes_;
  double probability_;
};

}  // namespace

std::vector<TransformInfo> colour_transforms() {
  const char* const strength = "the factor is drawn from 1 - value to 1 + value";
  const options::Rule range{.min = 0, .max = 10};
  return {
      transform<ColourJitter>("color_jitter",
                              "change brightness, contrast and saturation by random factors, in random order",
                              options::Describe<JitterOptions>()
                                  .key("brightness", &JitterOptions::brightness, strength, range)
                                  .key("contrast", &JitterOptions::contrast, strength, range)
                                  .key("saturation", &JitterOptions::saturation, strength, range),
                              true),
      transform<Cutout>(
          "cutout", "fill squares around random centres with the mean",
          options::Describe<CutoutOptions>()
              .key("size", &CutoutOptions::size, "side of a square in pixels", {.min = 1, .max = 65536})
              .key("holes", &CutoutOptions::holes, "number of squares", {.min = 1, .max = 64})
              .key("probability", &CutoutOptions::probability, "probability of cutting",
                   {.min = 0, .max = 1}),
          true),
  };
}

}  // namespace tandem::datasets
