// Transforms of SSD's training (Liu et al., "SSD: single shot multibox detector", ECCV 2016): crops that show
// an object, expansion, and photometric distortion.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "data/transforms/transform.h"

namespace tandem::datasets {

namespace {

struct SsdCropOptions {
  Index trials = 40;
  bool all = false;
};

struct ExpandOptions {
  double most = 4, probability = 0.5;
};

struct PhotometricOptions {
  double brightness = 32.0 / 255.0, contrast = 0.5, saturation = 0.5, hue = 18;
  double probability = 0.5, permutation = 0.5;
};

Corners corners_of(const Rect& rect) {
  return {static_cast<double>(rect.left), static_cast<double>(rect.top), static_cast<double>(rect.right()),
          static_cast<double>(rect.bottom())};
}

double overlap_of(const Corners& a, const Corners& b) {
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (!(width > 0 && height > 0)) return 0;
  return width * height / (a.area() + b.area() - width * height);
}

bool shows_centre(const Corners& part, const Corners& box) {
  const double x = (box.x1 + box.x2) / 2, y = (box.y1 + box.y2) / 2;
  return x > part.x1 && x < part.x2 && y > part.y1 && y < part.y2;
}

// Draws one of seven kinds (the whole image, any part, or a part that overlaps an object by .1, .3, .5, .7 or
// .9), then tries up to `trials` parts of that kind before it draws a kind again. torchvision's
// RandomIoUCrop; with `all`, the rule of NVIDIA's and MLPerf's SSD.
class SsdCrop final : public Transform {
 public:
  explicit SsdCrop(const SsdCropOptions& options) : options_(options) {}

  Extents output(Extents) const override { return {}; }
  WindowEffect effect(Extents) const override { return WindowEffect::crops; }

  void apply(ImageWork& image, RandomStream& random) const override {
    if (image.boxes().empty()) return;
    static constexpr std::array kOverlaps = {0.0, 0.1, 0.3, 0.5, 0.7, 0.9};
    while (true) {
      const std::uint32_t choice = random.below(static_cast<std::uint32_t>(kOverlaps.size()) + 1);
      if (choice == kOverlaps.size()) return;
      for (Index trial = 0; trial < options_.trials; ++trial) {
        const Rect part = drawn(image, random);
        if (!fits(part, image, kOverlaps[choice])) continue;
        image.crop(part);
        return;
      }
    }
  }

 private:
  static Rect drawn(const ImageWork& image, RandomStream& random) {
    const auto side = [&](Index extent) {
      return static_cast<Index>(static_cast<float>(extent) * random.uniform(0.3F, 1.0F));
    };
    const auto place = [&](Index room) {
      return static_cast<Index>(static_cast<float>(room) * random.uniform());
    };
    const Index width = side(image.width()), height = side(image.height());
    const Index left = place(image.width() - width), top = place(image.height() - height);
    return {top, left, height, width};
  }

  bool fits(const Rect& part, const ImageWork& image, double wanted) const {
    if (part.width < 1 || part.height < 1) return false;
    const double shape = static_cast<double>(part.width) / static_cast<double>(part.height);
    if (!(shape > 0.5 && shape < 2)) return false;
    const Corners shown = corners_of(part);
    bool some = false;
    double most = 0, least = 1;
    for (const LabelledBox& each : image.boxes()) {
      const double overlap = overlap_of(shown, each.box);
      least = std::min(least, overlap);
      if (!shows_centre(shown, each.box)) continue;
      some = true;
      most = std::max(most, overlap);
    }
    if (!some || wanted == 0) return some;
    return options_.all ? least > wanted : most >= wanted;
  }

  SsdCropOptions options_;
};

// Places the image on a canvas of the data set's mean, up to `most` times as wide and high. The canvas is not
// computed: a following crop takes its part of it.
class Expand final : public Transform {
 public:
  explicit Expand(const ExpandOptions& options) : options_(options) {}

  Extents output(Extents) const override { return {}; }

  void apply(ImageWork& image, RandomStream& random) const override {
    if (random.uniform() >= options_.probability) return;
    const float factor = random.uniform(1.0F, static_cast<float>(options_.most));
    const auto grown = [&](Index extent) { return static_cast<Index>(static_cast<float>(extent) * factor); };
    const auto before = [&](Index room) {
      return static_cast<Index>(static_cast<float>(room) * random.uniform());
    };
    const Index height = grown(image.height()), width = grown(image.width());
    const Index top = before(height - image.height()), left = before(width - image.width());
    image.crop_on_mean({-top, -left, height, width});
  }

 private:
  ExpandOptions options_;
};

using Colour = std::array<float, 3>;

// Turns the hue by `turn` sixths of a circle and scales the saturation; the brightest channel keeps its
// value.
void recolour(Colour& rgb, float turn, float saturation) {
  const auto [low, high] = std::minmax({rgb[0], rgb[1], rgb[2]});
  const float value = high, chroma = high - low;
  if (!(value > 0) || chroma == 0) return;
  float hue = value == rgb[0]   ? (rgb[1] - rgb[2]) / chroma
              : value == rgb[1] ? 2 + (rgb[2] - rgb[0]) / chroma
                                : 4 + (rgb[0] - rgb[1]) / chroma;
  hue += turn;
  hue -= 6 * std::floor(hue / 6);
  const float kept = std::min(chroma * saturation, value);
  for (int c = 0; c < 3; ++c) {
    float k = static_cast<float>(5 - 2 * c) + hue;  // CSS Color 4, section 7.1
    k -= 6 * std::floor(k / 6);
    rgb[static_cast<std::size_t>(c)] = value - kept * std::max(0.0F, std::min({k, 4 - k, 1.0F}));
  }
}

// Random brightness, contrast, saturation and hue, with contrast before or after the two of colour; then a
// random order of channels. Clips values once, at the end.
class Photometric final : public Transform {
 public:
  explicit Photometric(const PhotometricOptions& options) : options_(options) {}

  void apply(ImageWork& image, RandomStream& random) const override {
    const float unit = image.unit();
    const auto within = [&](double range) {
      const auto at_most = static_cast<float>(range);
      return random.uniform(-at_most, at_most);
    };
    const auto chosen = [&] { return random.uniform() < options_.probability; };
    const float shift = chosen() ? within(options_.brightness) * unit : 0;
    const bool early = random.uniform() < 0.5F;
    const float contrast = chosen() ? 1 + within(options_.contrast) : 1;
    const float saturation = chosen() ? 1 + within(options_.saturation) : 1;
    const float turn = chosen() ? within(options_.hue) / 60 : 0;
    std::array<std::size_t, 3> order{0, 1, 2};
    if (random.uniform() < options_.permutation)
      for (std::uint32_t i = 3; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);

    const bool coloured = image.channels() == 3;
    const bool recolours = coloured && (saturation != 1 || turn != 0);
    const std::span<float> pixels = image.pixels();
    if (!coloured) {
      for (float& value : pixels) value = std::clamp((value + shift) * contrast, 0.0F, unit);
      return;
    }
    for (std::size_t at = 0; at < pixels.size(); at += 3) {
      Colour rgb;
      for (std::size_t c = 0; c < 3; ++c) rgb[c] = (pixels[at + c] + shift) * (early ? contrast : 1);
      if (recolours) recolour(rgb, turn, saturation);
      for (std::size_t c = 0; c < 3; ++c)
        pixels[at + c] = std::clamp(rgb[order[c]] * (early ? 1 : contrast), 0.0F, unit);
    }
  }

 private:
  PhotometricOptions options_;
};

}  // namespace

std::vector<TransformInfo> detection_transforms() {
  using options::Describe;
  const options::Rule probability{.min = 0, .max = 1}, below_one{.min = 0, .max = 1};
  return {
      transform<SsdCrop>(
          "ssd_crop",
          "crop to a part that overlaps an object by a random share, as SSD's training does; keeps the "
          "objects with their centre in it",
          Describe<SsdCropOptions>()
              .key("trials", &SsdCropOptions::trials, "parts to try before another share is drawn",
                   {.min = 1, .max = 1000})
              .key("all", &SsdCropOptions::all, "all objects must overlap by the share, not only one"),
          true),
      transform<Expand>(
          "expand", "place the image on a larger canvas of the mean, so that objects become smaller",
          Describe<ExpandOptions>()
              .key("most", &ExpandOptions::most, "largest factor of width and height", {.min = 1, .max = 16})
              .key("probability", &ExpandOptions::probability, "probability of expanding", probability),
          true),
      transform<Photometric>(
          "photometric", "change brightness, contrast, saturation and hue as SSD's training does",
          Describe<PhotometricOptions>()
              .key("brightness", &PhotometricOptions::brightness,
                   "largest offset in either direction; 1 is white", below_one)
              .key("contrast", &PhotometricOptions::contrast,
                   "the factor is drawn from 1 - value to 1 + value", below_one)
              .key("saturation", &PhotometricOptions::saturation,
                   "the factor is drawn from 1 - value to 1 + value", below_one)
              .key("hue", &PhotometricOptions::hue, "largest rotation in degrees, in either direction",
                   {.min = 0, .max = 180})
              .key("probability", &PhotometricOptions::probability, "probability of each of the four",
                   probability)
              .key("permutation", &PhotometricOptions::permutation,
                   "probability of a random order of channels", probability),
          true),
  };
}

}  // namespace tandem::datasets
