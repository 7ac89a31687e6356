// Colour scenes with a mask each: cut-outs with transparency on parts of photographs, composed as they are
// asked for (samples/cutout_material.h).
#pragma once

#include <array>

#include "data/labelled_set.h"
#include "samples/cutout_material.h"

namespace tandem::datasets {

struct CutoutOptions {
  CutoutSources from;
  Index image_size = 96;
  Index most = 3;                          // cut-outs in a scene; how many there are is drawn from 0 on
  std::array<double, 2> scale{0.35, 0.8};  // range of a cut-out's longer side, as a share of the scene's
};

// Scene i is a pure function of (seed, split, i). Image u8 [S,S,3]; the mask has a cut-out's category plus 1
// where it hides more than half of what is behind, 0 elsewhere.
class CutoutScenes final : public Dataset {
 public:
  // `material` has a photograph, and a cut-out of every category.
  CutoutScenes(CutoutMaterial material, const CutoutOptions& options, Index count, std::uint64_t seed,
               std::uint32_t split);

  Index size() const override { return count_; }
  Sample get(Index index) const override;
  bool decodes() const override { return true; }

 private:
  CutoutMaterial material_;
  CutoutOptions options_;
  Index count_;
  std::uint64_t seed_;
  std::uint32_t split_;
};

// Scenes for testing have photographs and cut-outs of their own. Throws UserError naming the package when a
// folder is not there.
LabelledRegistry::Entry cutouts_entry();

}  // namespace tandem::datasets
