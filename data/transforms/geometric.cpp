// Transforms that choose where pixels come from: pad, crops, flips, resize.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/transforms/transform.h"

namespace tandem::datasets {

namespace {

constexpr double kMaxExtent = 65536;

// A size parameter: [side] or [height, width]; 0 means not given.
Extents extents_of(const std::vector<double>& size) {
  return {static_cast<Index>(size.front()), static_cast<Index>(size.back())};
}

ParameterInfo size_parameter(std::string help) { return {"size", {0}, 0, kMaxExtent, 2, std::move(help)}; }

bool chance(RandomStream& random, double probability) { return random.uniform() < probability; }

class Pad final : public Transform {
 public:
  explicit Pad(const Parameters& parameters)
      : padding_(parameters.integer("padding")), fill_(parameters.number("fill")) {}

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
  explicit RandomCrop(const Parameters& parameters)
      : size_(extents_of(parameters.list("size"))),
        padding_(parameters.integer("padding")),
        fill_(parameters.number("fill")) {}

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
  explicit CenterCrop(const Parameters& parameters) : size_(extents_of(parameters.list("size"))) {
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

class HorizontalFlip final : public Transform {
 public:
  explicit HorizontalFlip(const Parameters& parameters) : probability_(parameters.number("probability")) {}
  WindowEffect effect(Extents) const override { return WindowEffect::flips; }
  void apply(ImageWork& image, RandomStream& random) const override {
    if (chance(random, probability_)) image.mirror();
  }

 private:
  double probability_;
};

class VerticalFlip final : public Transform {
 public:
  explicit VerticalFlip(const Parameters& parameters) : probability_(parameters.number("probability")) {}
  WindowEffect effect(Extents) const override { return WindowEffect::flips; }
  void apply(ImageWork& image, RandomStream& random) const override {
    if (chance(random, probability_)) image.flip();
  }

 private:
  double probability_;
};

class Resize final : public Transform {
 public:
  explicit Resize(const Parameters& parameters)
      : size_(extents_of(parameters.list("size"))), shorter_(parameters.integer("shorter")) {
    require(size_.known() != (shorter_ > 0), "resize", "needs either size or shorter");
  }

  Extents output(Extents in) const override {
    if (size_.known()) return size_;
    return in.known() ? scaled(in) : Extents{};
  }
  void apply(ImageWork& image, RandomStream&) const override {
    const Extents out = size_.known() ? size_ : scaled({image.height(), image.width()});
    image.resize(out.height, out.width);
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
};

class RandomResizedCrop final : public Transform {
 public:
  explicit RandomResizedCrop(const Parameters& parameters)
      : size_(extents_of(parameters.list("size"))),
        scale_(parameters.list("scale")),
        ratio_(parameters.list("ratio")) {
    for (const auto* range : {&scale_, &ratio_}) {
      require(range->size() == 2 && range->front() <= range->back(), "random_resized_crop",
              "{} must be a range [low, high]", range == &scale_ ? "scale" : "ratio");
    }
  }

  Extents output(Extents in) const override {
    const Extents out = size_.known() ? size_ : in;
    require(out.known(), "random_resized_crop", "needs a size where images differ in size");
    return out;
  }
  void apply(ImageWork& image, RandomStream& random) const override {
    const Extents in{image.height(), image.width()};
    const Extents out = size_.known() ? size_ : in;
    image.crop(choose(in, random));
    image.resize(out.height, out.width);
  }

 private:
  // Szegedy et al. 2015: area and aspect at random, ten attempts, then the largest centred crop of a legal
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

}  // namespace

std::vector<TransformInfo> geometric_transforms() {
  const ParameterInfo padding{"padding", {4}, 0, kMaxExtent, 1, "pixels added on each side first"};
  const ParameterInfo fill{"fill", {0}, 0, 1, 1, "brightness of added pixels, 0 (black) to 1"};
  const ParameterInfo probability{"probability", {0.5}, 0, 1, 1, "of flipping"};
  return {
      {"random_crop",
       "pad, then cut out a rectangle at a random place",
       {size_parameter("of the crop, side or [height, width]; the image's own by default"), padding, fill},
       TransformStage::sample,
       true,
       make_transform<RandomCrop>},
      {"random_resized_crop",
       "cut out a random part of random aspect and resize it",
       {size_parameter("of the result, side or [height, width]; the image's own by default"),
        {"scale", {0.08, 1}, 1e-6, 1, 2, "range of the part's area"},
        {"ratio", {0.75, 4.0 / 3.0}, 1e-2, 1e2, 2, "range of its width / height"}},
       TransformStage::sample,
       true,
       make_transform<RandomResizedCrop>},
      {"horizontal_flip",
       "mirror left to right, at random",
       {probability},
       TransformStage::sample,
       true,
       make_transform<HorizontalFlip>},
      {"vertical_flip",
       "turn upside down, at random",
       {probability},
       TransformStage::sample,
       true,
       make_transform<VerticalFlip>},
      {"resize",
       "bilinear with antialiasing, to a size or to a length of the shorter side",
       {size_parameter("of the result, side or [height, width]"),
        {"shorter", {0}, 0, kMaxExtent, 1, "length of the shorter side; the proportion stays"}},
       TransformStage::sample,
       false,
       make_transform<Resize>},
      {"center_crop",
       "cut out the middle; smaller images are padded with black",
       {size_parameter("of the crop, side or [height, width]")},
       TransformStage::sample,
       false,
       make_transform<CenterCrop>},
      {"pad", "add pixels on each side", {padding, fill}, TransformStage::sample, false, make_transform<Pad>},
  };
}

}  // namespace tandem::datasets
