// Detection data set of scenes composed on demand: grey pictures of many sizes on a shaded, noisy background.
// A detector must learn the pictures, since places, sizes and background are independent of the class.
#pragma once

#include <string>

#include "samples/composed_scenes.h"

namespace tandem::datasets {

struct ItemScenesOptions {
  std::string items = "fashion_mnist";  // pictures to paste: fashion_mnist or digits
  Index scene_size = 128;               // side of a scene
  Index most_items = 6;                 // maximum number of pictures in a scene; the minimum is 1
};

// The background has a level of 0 to 90, a gradient of up to ±20 along each axis, and noise of standard
// deviation 6. Pictures are cropped to pixels brighter than 20, scaled by 0.7 to 2, and pasted over earlier
// ones, at places where the IoU with each earlier box is at most 0.15. A picture is left out after 20 failed
// attempts. The box is the pasted rectangle, the label is the picture's class plus 1.
class ItemScenes final : public ComposedScenes {
 public:
  // Throws UserError when the pictures are not grey, or when a scaled picture can exceed the scene.
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

// Training scenes show the items' training samples, test scenes show their test samples.
BoxSetRegistry::Entry item_scenes_entry();

}  // namespace tandem::datasets
