#include <algorithm>

#include "models/registry_keys.h"
#include "models/ssd.h"
#include "models/ssd_bodies.h"
#include "models/ssd_lite.h"

template <>
struct tandem::options::EnumNames<tandem::models::AnchorClip> {
  static constexpr std::array values{"none", "wh", "cxcywh"};
};

namespace tandem::models {

namespace {

using options::Describe;

struct SsdKeys {
  std::optional<Index> given_channels, given_classes;
  AnchorClip clip = SsdOptions{}.clip;
};

struct PublishedSsdKeys : SsdKeys {
  std::optional<std::string> anchors;
};

// Anchors clipped as in torchvision, whose pretrained weights exist.
struct LiteSsdKeys : PublishedSsdKeys {
  LiteSsdKeys() { clip = AnchorClip::wh; }
};

struct SmallSsdKeys : SsdKeys {
  Index width = 16;
  std::vector<double> sizes{0.1875, 0.3125, 0.5, 0.75};  // 24, 40, 64 and 96 pixels of 128
  std::vector<double> ratios{2.0};
};

template <class T>
Describe<T>& add_ssd(Describe<T>& keys) {
  return keys
      .key("num_classes", of<T>(&SsdKeys::given_classes),
           "number of classes including the background; inferred from the data", size_rule())
      .key("clip", of<T>(&SsdKeys::clip),
           "anchors beyond the image's border: none: unchanged; wh: no side is longer than the image's "
           "(torchvision); cxcywh: centre and sides within the image (NVIDIA's and MLPerf's)");
}

// Side of the images, from the data; 0: unknown, and any side is accepted.
Index side_of(const DataInfo& data, Index wanted) {
  if (data.sample.rank() != 3) return wanted;
  const Index height = data.sample[0], width = data.sample[1];
  if (height != width || (wanted > 0 && height != wanted))
    throw OptionError(
        "name",
        fmt::format("takes images of {}, the data's are {}x{}; data.image_size brings them to a size",
                    wanted > 0 ? fmt::format("{0}x{0} pixels", wanted) : "equal sides", width, height));
  return height;
}

SsdOptions options_of(const SsdKeys& keys, const DataInfo& data, AnchorGrid anchors) {
  SsdOptions options{.anchors = std::move(anchors), .clip = keys.clip};
  const Index known = data.classes > 0 ? data.classes : options.num_classes;
  options.num_classes = keys.given_classes.value_or(known);
  return options;
}

template <class Keys = PublishedSsdKeys>
ModelInfo published(std::string name, std::string help, std::string anchors,
                    std::function<std::shared_ptr<DetectorBody>()> body) {
  Describe<Keys> keys;
  options::Rule rule{.choices = anchor_grids()};
  rule.fallback = anchors;
  add_ssd(keys).key("anchors", of<Keys>(&PublishedSsdKeys::anchors), "sizes and shapes of the anchors", rule);
  return model(std::move(name), std::move(help), keys,
               [anchors, body = std::move(body)](const Keys& o, const DataInfo& data) {
                 AnchorGrid grid = anchor_grid(o.anchors.value_or(anchors));
                 side_of(data, grid.image_size);
                 channels_of(std::nullopt, data, 3);
                 SsdOptions options = options_of(o, data, std::move(grid));
                 options.lite = std::is_same_v<Keys, LiteSsdKeys>;
                 return std::make_shared<Ssd>(body(), options);
               });
}

AnchorGrid small_grid(const SmallSsdKeys& keys, Index side) {
  AnchorGrid grid{.image_size = side, .levels = {}};
  Index cells = (((side + 1) / 2 + 1) / 2 + 1) / 2;  // three halvings, rounded up
  for (std::size_t level = 0; level + 1 < keys.sizes.size(); ++level, cells = (cells + 1) / 2) {
    const auto size = [&](std::size_t at) { return keys.sizes[at] * static_cast<double>(side); };
    grid.levels.push_back({.cells = cells,
                           .step = 0.0,
                           .size = size(level),
                           .next_size = size(level + 1),
                           .ratios = keys.ratios});
  }
  return grid;
}

ModelInfo small_ssd() {
  Describe<SmallSsdKeys> keys;
  add_ssd(keys)
      .key("in_channels", of<SmallSsdKeys>(&SsdKeys::given_channels),
           "channels of the images; inferred from the data", size_rule())
      .key("width", &SmallSsdKeys::width,
           "channels at half the image's size; eight times as many in the last maps", size_rule())
      .key("sizes", &SmallSsdKeys::sizes,
           "sizes of the square anchors of the three maps, and the last map's next size, relative to the "
           "image",
           {.min = 0.0, .max = 2.0, .open_min = true})
      .key("ratios", &SmallSsdKeys::ratios, "aspect ratios of further anchors, each both wide and high",
           {.min = 1.0, .max = 10.0, .open_min = true})
      .rule("sizes", "must be four increasing values",
            [](const SmallSsdKeys& o) { return o.sizes.size() == 4 && std::ranges::is_sorted(o.sizes); });
  return model("ssd_small", "SSD on maps of 1/8, 1/16 and 1/32 of the image, for small images", keys,
               [](const SmallSsdKeys& o, const DataInfo& data) {
                 const Index channels = channels_of(o.given_channels, data, 3), side = side_of(data, 0);
                 auto body = std::make_shared<SmallDetectorBody>(o.width, channels);
                 return std::make_shared<Ssd>(std::move(body),
                                              options_of(o, data, small_grid(o, side > 0 ? side : 128)));
               });
}

}  // namespace

std::vector<ModelInfo> detector_models() {
  std::vector<ModelInfo> models{small_ssd()};
  for (const int depth : {18, 34, 50})
    models.push_back(published(fmt::format("ssd300_resnet{}", depth),
                               fmt::format("SSD of 300x300 images on a residual network of depth {}", depth),
                               "coco300", [depth] { return std::make_shared<ResNetDetectorBody>(depth); }));
  models.push_back(published("ssd300_vgg16", "SSD of 300x300 images on VGG-16", "voc300",
                             [] { return std::make_shared<VggDetectorBody>(vgg_extras_300()); }));
  models.push_back(published("ssd512_vgg16", "SSD of 512x512 images on VGG-16", "voc512",
                             [] { return std::make_shared<VggDetectorBody>(vgg_extras_512()); }));
  models.push_back(published<LiteSsdKeys>(
      "ssdlite320_mobilenet_v3", "SSDLite of 320x320 images on MobileNetV3-Large, as torchvision's",
      "ssdlite320", [] { return std::make_shared<MobileNetDetectorBody>(); }));
  return models;
}

}  // namespace tandem::models
