// Detection data set of colour scenes, composed on demand: cut-outs with transparency on crops of photographs
// (samples/cutout_material.h).
#pragma once

#include <array>
#include <vector>

#include "samples/composed_scenes.h"
#include "samples/cutout_material.h"

namespace tandem::datasets {

struct StampScenesOptions {
  CutoutSources from{.categories = {"animals", "clothes", "food", "household", "plants", "seasonal", "space",
                                    "sports", "town", "vehicles"}};
  Index scene_size = 300;                 // side of a scene
  Index most_items = 5;                   // maximum number of cut-outs in a scene; the minimum is 1
  std::array<double, 2> scale{0.1, 0.6};  // range of a cut-out's longer side, relative to the scene's side
};

// A scene shows cut-outs of random categories on a square crop of a photograph, later ones over earlier ones.
// find_place places each cut-out; a cut-out without a place is left out. The box is the rectangle of the
// cut-out, the label is the index of its category plus 1.
class StampScenes final : public ComposedScenes {
 public:
  // `material` must have a photograph, and a cut-out of every category.
  StampScenes(CutoutMaterial material, const StampScenesOptions& options, std::uint64_t seed,
              std::uint32_t split);

  Index channels() const override { return 3; }
  Tensor image(std::int64_t id) const override;

 private:
  struct Stamp;
  std::vector<Stamp> stamps(std::int64_t id) const;
  std::vector<Thing> things(std::int64_t id) const override;

  CutoutMaterial material_;
  StampScenesOptions options_;
};

// Training and test scenes share no photographs or cut-outs.
BoxSetRegistry::Entry stamp_scenes_entry();

}  // namespace tandem::datasets
