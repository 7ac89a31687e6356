// Segmentation data set of colour scenes, composed on demand: cut-outs with transparency on crops of
// photographs (samples/cutout_material.h).
#pragma once

#include <array>

#include "data/labelled_set.h"
#include "samples/cutout_material.h"

namespace tandem::datasets {

struct CutoutOptions {
  CutoutSources from;
  Index image_size = 96;
  Index most = 3;                          // maximum number of cut-outs in a scene; the minimum is 0
  std::array<double, 2> scale{0.35, 0.8};  // range of a cut-out's longer side, relative to the scene's side
};

// Scene i is a pure function of (seed, split, i). The image is u8 [S,S,3]. The mask has the index of a
// cut-out's category plus 1 where the cut-out is more than half opaque, 0 elsewhere.
class CutoutScenes final : public Dataset {
 public:
  // `material` must have a photograph, and a cut-out of every category.
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

// Training and test scenes share no photographs or cut-outs. Throws UserError with the package when a folder
// is missing.
LabelledRegistry::Entry cutouts_entry();

}  // namespace tandem::datasets
