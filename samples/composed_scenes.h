// Base class of data sets that compose scenes with boxes on demand.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/random.h"
#include "data/boxes/box_registry.h"
#include "data/boxes/image_maker.h"
#include "data/transforms/image_view.h"

namespace tandem::datasets {

// Scene `id` is a pure function of (seed, split, id). Its objects are drawn before its background and do not
// depend on it: boxes are known without rendering.
class ComposedScenes : public ImageMaker {
 public:
  // The objects of scene `id`, numbered from `first_object`.
  BoxImage described(std::int64_t id, std::int64_t first_object) const;

 protected:
  struct Thing {
    Rect to;  // the box, in the scene
    Index label = 0;
  };

  // Scenes use the random streams `stream` and `stream` + 1 of the seed's synthetic data.
  ComposedScenes(Index side, std::uint64_t seed, std::uint32_t split, std::uint32_t stream)
      : side_(side), seed_(seed), split_(split), stream_(stream) {}

  virtual std::vector<Thing> things(std::int64_t id) const = 0;

  Index side() const { return side_; }
  RandomStream drawing_things(std::int64_t id) const { return drawing(id, stream_); }
  RandomStream drawing_ground(std::int64_t id) const { return drawing(id, stream_ + 1); }
  // Moves `to` to a random place in the scene where its IoU with each of `earlier` is at most 0.15. Returns
  // false after 20 failed attempts.
  bool find_place(Rect& to, std::span<const Rect> earlier, RandomStream& random) const;

 private:
  RandomStream drawing(std::int64_t id, std::uint32_t stream) const;

  Index side_;
  std::uint64_t seed_;
  std::uint32_t split_, stream_;
};

// The splits of a set: by default 5000 training and 500 test scenes. Their ids are disjoint.
BoxSplits splits_of_scenes(const std::string& where, const std::vector<std::string>& classes,
                           std::shared_ptr<const ComposedScenes> train,
                           std::shared_ptr<const ComposedScenes> test, const SetOptions& common);

}  // namespace tandem::datasets
