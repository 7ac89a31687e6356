// Scenes with boxes: grey pictures of many sizes on shaded, noisy ground, made up as they are asked for. What
// finds them has learnt what the pictures show, since places, sizes and ground say nothing.
#pragma once

#include <string>

#include "samples/composed_scenes.h"

namespace tandem::datasets {

struct ItemScenesOptions {
  std::string items = "fashion_mnist";  // what is shown: fashion_mnist or digits
  Index scene_size = 128;               // side of a scene
  Index most_items = 6;                 // pictures in a scene; how many there are is drawn from 1 on
};

// Ground of a level of 0 to 90 that rises or falls by up
// to 20 along each axis, noise of a deviation of 6, then pictures, cut to what is brighter than 20 and scaled
// by 0.7 to 2, later ones over earlier ones, each where its box overlaps none of the earlier ones by more
// than 0.15 (after 20 places in vain it is left out). A box is the pasted rectangle, a label the picture's
// class plus 1.
class ItemScenes final : public ComposedScenes {
 public:
  // Throws UserError when the pictures are not grey, or when the scenes are smaller than one may be.
  ItemScenes(DatasetPtr items, const ItemScenesOptions& options, std::uint64_t seed, std::uint32_t split);

  Index channels() const override { return 1; }
  Tensor image(std::int64_t id) const override;

 private:
  struct Paste;
  std::vector<Paste> pastes(std::int64_t id) const;
  std::vector<Thing> things(std::int64_t id) const override;

  DatasetPtr items_;
  ItemScenesOptions options_;
};

// Scenes for training show the items' training samples, those for testing the others.
BoxSetRegistry::Entry item_scenes_entry();

}  // namespace tandem::datasets
