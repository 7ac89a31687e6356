// Scenes with boxes that are composed as they are asked for: what the sets of them share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "data/boxes/box_registry.h"
#include "data/boxes/image_maker.h"
#include "data/transforms/image_view.h"

namespace tandem::datasets {

// Scene `id` is a pure function of (seed, split, id). Its things come first and do not depend on its ground,
// so that where they are is known without a pixel.
class ComposedScenes : public ImageMaker {
 public:
  // The objects of scene `id`, numbered from `first_object` on.
  BoxImage described(std::int64_t id, std::int64_t first_object) const;

 protected:
  struct Thing {
    Rect to;  // of the scene: its box
    Index label = 0;
  };

  // `stream`: of the seed's synthetic data, this one and the next.
  ComposedScenes(Index side, std::uint64_t seed, std::uint32_t split, std::uint32_t stream)
      : side_(side), seed_(seed), split_(split), stream_(stream) {}

  virtual std::vector<Thing> things(std::int64_t id) const = 0;

  Index side() const { return side_; }
  RandomStream drawing_things(std::int64_t id) const { return drawing(id, stream_); }
  RandomStream drawing_ground(std::int64_t id) const { return drawing(id, stream_ + 1); }

 private:
  RandomStream drawing(std::int64_t id, std::uint32_t stream) const;

  Index side_;
  std::uint64_t seed_;
  std::uint32_t split_, stream_;
};

// The scenes of a set: 5000 and 500 where the options do not say otherwise. No number is a training and a
// test scene's.
BoxSplits splits_of_scenes(const std::string& where, const std::vector<std::string>& classes,
                           std::shared_ptr<const ComposedScenes> train,
                           std::shared_ptr<const ComposedScenes> test, const SetOptions& common);

}  // namespace tandem::datasets
