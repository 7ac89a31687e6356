// Segmentation data set of scenes composed on demand: small grey pictures on noise. A model must learn the
// pictures, since noise and places are independent of the class.
#pragma once

#include <string>

#include "data/labelled_set.h"

namespace tandem::datasets {

// Picture pixels up to this brightness are transparent.
inline constexpr std::uint8_t kSeeThrough = 24;

struct ScenesOptions {
  std::string items = "fashion_mnist";  // pictures to paste: fashion_mnist or digits
  Index image_size = 64;                // side of a scene
  Index item_size = 28;                 // side of a picture in it
  Index most = 4;                       // maximum number of pictures in a scene; the minimum is 0
  double noise = 0.25;                  // upper limit of the noise, as brightness; 1 is white
};

// Scene i is a pure function of (seed, split, i): pictures of `items` at random places, later ones over
// earlier ones. The image is u8 [S,S,1]. The mask has the picture's class plus 1 on its visible pixels, 0
// elsewhere. The class names are "background" and those of the items.
class Scenes final : public Dataset {
 public:
  // Throws UserError when the pictures do not fit into the scenes, or are not grey.
  Scenes(DatasetPtr items, const ScenesOptions& options, Index count, std::uint64_t seed,
         std::uint32_t split);

  Index size() const override { return count_; }
  Sample get(Index index) const override;
  bool decodes() const override { return true; }  // scenes of four pictures take longer than empty ones

 private:
  DatasetPtr items_;
  ScenesOptions options_;
  Index count_;
  std::uint64_t seed_;
  std::uint32_t split_;
};

// Training scenes show the items' training samples, test scenes show their test samples.
LabelledRegistry::Entry scenes_entry();

}  // namespace tandem::datasets
