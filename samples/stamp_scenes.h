// Colour scenes with boxes: cut-outs with transparency on parts of photographs, composed as they are asked
// for (samples/cutout_material.h).
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
  Index most_items = 5;                   // cut-outs in a scene; how many there are is drawn from 1 on
  std::array<double, 2> scale{0.1, 0.6};  // range of a cut-out's longer side, as a share of the scene's
};

// A square part of a photograph, then cut-outs of drawn
// categories, later ones over earlier ones, each where find_place finds room for it (else it is left out).
// A box is the rectangle that a cut-out fills; a label its category's place plus 1.
class StampScenes final : public ComposedScenes {
 public:
  // `material` has a photograph, and a cut-out of every category.
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

// Scenes for testing have photographs and cut-outs of their own.
BoxSetRegistry::Entry stamp_scenes_entry();

}  // namespace tandem::datasets
