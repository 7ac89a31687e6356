// Source images of composed scenes: cut-outs with transparency (Debian's package tuxpaint-stamps-default) and
// background photographs (mate-backgrounds).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "data/labelled_set.h"
#include "data/transforms/image_view.h"

namespace tandem::datasets {

inline constexpr const char* kCutoutFolder = "/usr/share/tuxpaint/stamps";
inline constexpr const char* kPhotographFolder = "/usr/share/backgrounds/mate/nature";

struct CutoutSources {
  std::optional<std::string> photographs{};  // folder; absent: kPhotographFolder
  // Class names: folders of cut-outs below the set's path.
  std::vector<std::string> categories{"animals", "food", "plants", "town", "vehicles"};
  double test_fraction = 0.2;  // share of the photographs, and of each category's cut-outs
  static const options::Schema& schema();
};

struct CutoutMaterial {
  std::vector<Tensor> photographs{};           // u8 [H,W,3]
  std::vector<std::vector<Tensor>> cutouts{};  // by category: u8 [H,W,4], premultiplied alpha
};

struct CutoutHalves {
  CutoutMaterial train, test;  // disjoint
};

// Reads the images for scenes of `side` pixels: cut-outs of at most that size, photographs of a few times it.
// `trimmed` crops cut-outs to their opaque part. Throws UserError for a missing folder, with its package, and
// for fewer than two images of a category or of photographs.
CutoutHalves read_cutouts(const CutoutSources& from, const SetOptions& common, Index side, bool trimmed);

// A random image of the list.
const Tensor& any_of(const std::vector<Tensor>& images, RandomStream& random);

// Fills the image, u8 [S,S,3], with a random square crop of a photograph, mirrored at random.
void draw_background(const Tensor& photograph, RandomStream& random, const Tensor& image);

// Blends a cut-out over the rectangle `to` of the image. The mask `solid` [S,S], if defined, gets `label`
// where the cut-out is more than half opaque.
void draw_cutout(const Tensor& cutout, const Rect& to, bool mirrored, const Tensor& image,
                 const Tensor& solid = {}, std::uint8_t label = 0);

}  // namespace tandem::datasets
