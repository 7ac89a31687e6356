// The synthetic sets of tests/golden/coco_metric.py, draw by draw.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "metrics/detections.h"

namespace tandem::test {

// SplitMix64, as in tests/golden/drawn.py.
class Drawn {
 public:
  explicit Drawn(std::uint64_t seed) : state_(seed) {}

  std::int64_t below(std::int64_t bound) {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    // (z >> 11)·bound >> 53 without the product's upper bits: bounds are below 2³².
    const std::uint64_t bits = (z ^ z >> 31) >> 11, factor = static_cast<std::uint64_t>(bound);
    return static_cast<std::int64_t>(((bits >> 32) * factor + ((bits & 0xffffffffu) * factor >> 32)) >> 21);
  }
  double number(std::int64_t bound) { return static_cast<double>(below(bound)); }
  bool one_in(std::int64_t bound) { return below(bound) == 0; }
  template <class Value>
  const Value& of(const std::vector<Value>& among) {
    return among[static_cast<std::size_t>(below(static_cast<std::int64_t>(among.size())))];
  }

 private:
  std::uint64_t state_;
};

class DrawnSet {
 public:
  explicit DrawnSet(int number) : number_(number), draw_(static_cast<std::uint64_t>(number)) {
    const std::int64_t image_count = 1 + draw_.below(6);
    for (std::int64_t k = 0; k < image_count; ++k) images_.push_back(7 * k + draw_.below(7));
    const std::int64_t category_count = number % 10 == 0 ? 1 : 1 + draw_.below(4);
    for (std::int64_t k = 0; k < category_count; ++k) categories_.push_back(1 + 4 * k + draw_.below(4));
    if (number % 3 == 0) {
      std::reverse(images_.begin(), images_.end());
      std::reverse(categories_.begin(), categories_.end());
    }
    draw_objects();
    draw_detections();
  }

  metrics::GroundTruth truth() const { return {images_, categories_, objects_}; }
  const std::vector<metrics::Detection>& detections() const { return detections_; }

 private:
  metrics::PixelBox box() {
    static const std::vector<double> sides = {0, 4, 10, 16, 32, 32, 48, 96, 96, 100, 128, 200};
    metrics::PixelBox result;
    result.x = draw_.number(100) * unit_;
    result.y = draw_.number(100) * unit_;
    result.width = draw_.of(sides);
    result.height = draw_.one_in(2) ? draw_.of(sides) : result.width;
    return result;
  }

  void draw_objects() {
    std::vector<std::int64_t> used = categories_;
    if (number_ % 3 == 1 && used.size() > 1) used.pop_back();
    for (const std::int64_t image : images_) {
      for (std::int64_t left = draw_.below(10); left > 0; --left) {
        metrics::TrueBox object{.image = image, .box = box()};
        const std::int64_t kind = draw_.below(6);
        object.area = kind == 0 ? 1024.0 : kind == 1 ? 9216.0 : object.box.area() * (kind == 2 ? 0.5 : 1.0);
        object.category = draw_.of(used);
        object.crowd = draw_.one_in(8);
        object.difficult = draw_.one_in(4);
        objects_.push_back(object);
      }
    }
    const auto count = static_cast<std::int64_t>(objects_.size());
    const std::int64_t first = draw_.below(2), shift = draw_.below(std::max<std::int64_t>(1, count));
    for (std::int64_t k = 0; k < count; ++k)
      objects_[static_cast<std::size_t>(k)].id = first + (k + shift) % count;
  }

  metrics::PixelBox near(metrics::PixelBox like) {
    static const std::vector<std::int64_t> reaches = {0, 1, 2, 8};
    const std::int64_t reach = draw_.of(reaches);
    for (double* value : {&like.x, &like.y, &like.width, &like.height})
      *value += static_cast<double>(draw_.below(2 * reach + 1) - reach) * unit_;
    like.width = std::max(0.0, like.width);
    like.height = std::max(0.0, like.height);
    return like;
  }

  void draw_detections() {
    if (number_ % 25 == 24) return;
    for (const std::int64_t image : images_) {
      std::vector<metrics::TrueBox> here;
      std::copy_if(objects_.begin(), objects_.end(), std::back_inserter(here),
                   [&](const metrics::TrueBox& each) { return each.image == image; });
      for (std::int64_t left = number_ % 10 == 0 ? 105 + draw_.below(40) : draw_.below(25); left > 0; --left)
        detections_.push_back(detection(image, here));
    }
    for (std::size_t k = detections_.size(); k-- > 1;)
      std::swap(detections_[k],
                detections_[static_cast<std::size_t>(draw_.below(static_cast<std::int64_t>(k) + 1))]);
  }

  metrics::Detection detection(std::int64_t image, const std::vector<metrics::TrueBox>& here) {
    metrics::Detection result{.image = image};
    if (!here.empty() && !draw_.one_in(4)) {
      const metrics::TrueBox& like = draw_.of(here);
      result.box = near(like.box);
      result.category = draw_.one_in(8) ? draw_.of(categories_) : like.category;
    } else {
      result.box = box();
      result.category = draw_.of(categories_);
    }
    result.score = number_ % 4 < 2 ? draw_.number(17) / 16 : draw_.number(1 << 20) * 0x1p-20;
    return result;
  }

  int number_;
  Drawn draw_;
  double unit_ = number_ % 2 == 1 ? 0.25 : 1.0;
  std::vector<std::int64_t> images_, categories_;
  std::vector<metrics::TrueBox> objects_;
  std::vector<metrics::Detection> detections_;
};

}  // namespace tandem::test
