// Geometric transforms: pad, crops, flips, resize.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/transforms/parameters.h"
#include "data/transforms/transform.h"

namespace tandem::datasets {

namespace {

constexpr double kMaxExtent = 65536;

Extents extents_of(const Sides& size) {
  return {static_cast<Index>(size.height), static_cast<Index>(size.width)};
}

struct PadOptions {
  Index padding = 4;
  double fill = 0;
};

struct RandomCropOptions : PadOptions {
  Sides size;
};

struct CenterCropOptions {
  Sides size;
};

struct FlipOptions {
  double probability = 0.5;
};

struct ResizeOptions {
  Sides size;
  Index shorter = 0;
  bool antialias = true;
};

struct RandomResizedCropOptions {
  Sides size;
  std::vector<double> scale{0.08, 1}, ratio{0.75, 4.0 / 3.0};
};

bool chance(RandomStream& random, double probability) { return random.uniform() < probability; }

class Pad final : public Transform {
 public:
  explicit Pad(const PadOptions& options) : padding_(options.padding), fill_(options.fill) {}

  Extents output(Extents in) const override {
    return {in.height ? in.height + 2 * padding_ : 0, in.width ? in.width + 2 * padding_ : 0};
  }
  WindowEffect effect(Extents) const override { return WindowEffect::pads; }
  void apply(ImageWork& image, RandomStream&) const override {
    image.crop({-padding_, -padding_, image.height() + 2 * padding_, image.width() + 2 * padding_},
               static_cast<float>(fill_) * image.unit());
  }

 private:
  Index padding_;
  double fill_;
};

class RandomCrop final : public Transform {
 public:
  explicit RandomCrop(const RandomCropOptions& options)
      : size_(extents_of(options.size)), padding_(options.padding), fill_(options.fill) {}

  Extents output(Extents in) const override {
    const Extents out = size_.known() ? size_ : in;
    if (in.known()) check(in, out);
    return out;
  }
  WindowEffect effect(Extents) const override {
    return padding_ > 0 ? WindowEffect::pads : WindowEffect::crops;
  }
  void apply(ImageWork& image, RandomStream& random) const override {
    const Extents in{image.height(), image.width()};
    const Extents out = size_.known() ? size_ : in;
    check(in, out);
    const auto top = random.below(static_cast<std::uint32_t>(in.height + 2 * padding_ - out.height + 1));
    const auto left = random.below(static_cast<std::uint32_t>(in.width + 2 * padding_ - out.width + 1));
    image.crop({top - padding_, left - padding_, out.height, out.width},
               static_cast<float>(fill_) * image.unit());
  }

 private:
  void check(Extents in, Extents out) const {
    require(out.height <= in.height + 2 * padding_ && out.width <= in.width + 2 * padding_, "random_crop",
            "a crop of {}x{} does not fit into images of {}x{} with a padding of {}", out.height, out.width,
            in.height, in.width, padding_);
  }

  Extents size_;
  Index padding_;
  double fill_;
};

class CenterCrop final : public Transform {
 public:
  explicit CenterCrop(const CenterCropOptions& options) : size_(extents_of(options.size)) {
    require(size_.known(), "center_crop", "needs a size, such as 224 or [height, width]");
  }

  Extents output(Extents) const override { return size_; }
  WindowEffect effect(Extents in) const override {
    return size_.height <= in.height && size_.width <= in.width ? WindowEffect::crops : WindowEffect::pads;
  }
  void apply(ImageWork& image, RandomStream&) const override {
    const auto before = [](Index in, Index out) {
      return static_cast<Index>(std::floor(static_cast<double>(in - out) / 2.0));
    };
    image.crop({before(image.height(), size_.height), before(image.width(), size_.width), size_.height,
                size_.width});
  }

 private:
  Extents size_;
};

// Calls kFlip at random.
template <void (ImageWork::*kFlip)()>
class Flip final : public Transform {
 public:
  explicit Flip(const FlipOptions& options) : probability_(options.probability) {}
  WindowEffect effect(Extents) const override { return WindowEffect::flips; }
  void apply(ImageWork& image, RandomStream& random) const override {
    if (chance(random, probability_)) (image.*kFlip)();
  }

 private:
  double probability_;
};

class Resize final : public Transform {
 public:
  explicit Resize(const ResizeOptions& options)
      : size_(extents_of(options.size)), shorter_(options.shorter), antialias_(options.antialias) {
    require(size_.known() != (shorter_ > 0), "resize", "needs either size or shorter");
  }

  Extents output(Extents in) const override {
    if (size_.known()) return size_;
    return in.known() ? scaled(in) : Extents{};
  }
  void apply(ImageWork& image, RandomStream&) const override {
    const Extents out = size_.known() ? size_ : scaled({image.height(), image.width()});
    image.resize(out.height, out.width, antialias_);
  }

 private:
  // The shorter side becomes `shorter_`; the longer one keeps the proportion, rounded down.
  Extents scaled(Extents in) const {
    const Index least = std::min(in.height, in.width);
    const auto side = [&](Index extent) { return extent == least ? shorter_ : extent * shorter_ / least; };
    return {side(in.height), side(in.width)};
  }

  Extents size_;
  Index shorter_;
  bool antialias_;
};

class RandomResizedCrop final : public Transform {
 public:
  explicit RandomResizedCrop(const RandomResizedCropOptions& options)
      : size_(extents_of(options.size)), scale_(options.scale), ratio_(options.ratio) {}

  Extents output(Extents in) const override {
    const Extents out = size_.known() ? size_ : in;
    require(out.known(), "random_resized_crop", "needs a size if images differ in size");
    return out;
  }
  void apply(ImageWork& image, RandomStream& random) const override {
    const Extents in{image.height(), image.width()};
    const Extents out = size_.known() ? size_ : in;
    image.crop(choose(in, random));
    image.resize(out.height, out.width);
  }

 private:
  // Szegedy et al. 2015: random area and aspect, ten attempts, then the largest centred crop of a valid
  // aspect.
  Rect choose(Extents in, RandomStream& random) const {
    const double area = static_cast<double>(in.height) * static_cast<double>(in.width);
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double share = random.uniform(static_cast<float>(scale_[0]), static_cast<float>(scale_[1]));
      const double aspect = std::exp(
          random.uniform(static_cast<float>(std::log(ratio_[0])), static_cast<float>(std::log(ratio_[1]))));
      const auto width = static_cast<Index>(std::round(std::sqrt(area * share * aspect)));
      const auto height = static_cast<Index>(std::round(std::sqrt(area * share / aspect)));
      if (width < 1 || height < 1 || width > in.width || height > in.height) continue;
      const auto top = random.below(static_cast<std::uint32_t>(in.height - height + 1));
      const auto left = random.below(static_cast<std::uint32_t>(in.width - width + 1));
      return {top, left, height, width};
    }
    const double aspect = static_cast<double>(in.width) / static_cast<double>(in.height);
    Index height = in.height, width = in.width;
    if (aspect < ratio_[0]) height = static_cast<Index>(std::round(static_cast<double>(width) / ratio_[0]));
    if (aspect > ratio_[1]) width = static_cast<Index>(std::round(static_cast<double>(height) * ratio_[1]));
    height = std::clamp<Index>(height, 1, in.height);
    width = std::clamp<Index>(width, 1, in.width);
    return {(in.height - height) / 2, (in.width - width) / 2, height, width};
  }

  Extents size_;
  std::vector<double> scale_, ratio_;
};

const options::Rule kPixels{.min = 0, .max = kMaxExtent}, kProbability{.min = 0, .max = 1};

template <class Options>
options::Describe<Options> with_size(std::string help) {
  options::Describe<Options> keys;
  keys.key("size", &Options::size, std::move(help), kPixels);
  return keys;
}

template <class Options>
options::Describe<Options>& add_padding(options::Describe<Options>& keys) {
  Index PadOptions::*const padding = &PadOptions::padding;
  double PadOptions::*const fill = &PadOptions::fill;
  return keys
      .key("padding", static_cast<Index Options::*>(padding), "pixels added on each side first", kPixels)
      .key("fill", static_cast<double Options::*>(fill), "brightness of added pixels, 0 (black) to 1",
           {.min = 0, .max = 1});
}

options::Describe<FlipOptions> describe_flip() {
  options::Describe<FlipOptions> keys;
  keys.key("probability", &FlipOptions::probability, "probability of flipping", kProbability);
  return keys;
}

bool is_range(const std::vector<double>& range) { return range.size() == 2 && range.front() <= range.back(); }

}  // namespace

std::vector<TransformInfo> geometric_transforms() {
  auto crop = with_size<RandomCropOptions>("size of the crop, side or [height, width]; default: the image's");
  auto part = with_size<RandomResizedCropOptions>(
      "size of the result, side or [height, width]; default: the image's");
  part.key("scale", &RandomResizedCropOptions::scale, "range of the part's area", {.min = 1e-6, .max = 1})
      .key("ratio", &RandomResizedCropOptions::ratio, "range of the part's width / height",
           {.min = 1e-2, .max = 1e2})
      .rule("scale", "must be a range [low, high]",
            [](const RandomResizedCropOptions& o) { return is_range(o.scale); })
      .rule("ratio", "must be a range [low, high]",
            [](const RandomResizedCropOptions& o) { return is_range(o.ratio); });
  auto resize = with_size<ResizeOptions>("size of the result, side or [height, width]");
  resize.key("shorter", &ResizeOptions::shorter, "length of the shorter side; the proportion stays", kPixels)
      .key("antialias", &ResizeOptions::antialias,
           "average all pixels in a reduction, not only the two nearest in each direction");
  options::Describe<PadOptions> pad;
  return {
      transform<RandomCrop>("random_crop", "pad, then crop at a random position", add_padding(crop), true),
      transform<RandomResizedCrop>("random_resized_crop",
                                   "crop a part of random size and aspect and resize it", part, true),
      transform<Flip<&ImageWork::mirror>>("horizontal_flip", "mirror left to right, at random",
                                          describe_flip(), true),
      transform<Flip<&ImageWork::flip>>("vertical_flip", "flip upside down, at random", describe_flip(),
                                        true),
      transform<Resize>("resize", "resize bilinearly, to a size or by the shorter side", resize, false),
      transform<CenterCrop>("center_crop", "crop the centre; smaller images are padded with black",
                            with_size<CenterCropOptions>("size of the crop, side or [height, width]"), false),
      transform<Pad>("pad", "add pixels on each side", add_padding(pad), false),
  };
}

}  // namespace tandem::datasets
