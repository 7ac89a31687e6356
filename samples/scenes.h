// Composed scenes with a mask each: small grey pictures on noise, made up as they are asked for. What
// segments them has learnt what the pictures show, since noise and places say nothing.
#pragma once

#include <string>

#include "data/labelled_set.h"

namespace tandem::datasets {

// A pixel of a picture that is no brighter is see-through.
inline constexpr std::uint8_t kSeeThrough = 24;

struct ScenesOptions {
  std::string items = "fashion_mnist";  // what is shown: fashion_mnist or digits
  Index image_size = 64;                // side of a scene
  Index item_size = 28;                 // side of a picture in it
  Index most = 4;                       // pictures in a scene; how many there are is drawn from 0 on
  double noise = 0.25;                  // brightness that the noise stays below, 1 is white
};

// Scene i is a pure function of (seed, split, i): pictures of `items`, each at a place of its own, later ones
// before earlier ones. Image u8 [S,S,1]; the mask has the class of the picture plus 1 where a picture shows,
// 0 elsewhere. Class names are "background" and those of the items.
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

// Scenes for training show the items' training samples, those for testing the others.
LabelledRegistry::Entry scenes_entry();

}  // namespace tandem::datasets
