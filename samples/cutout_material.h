// Cut-outs with transparency and photographs, from which scenes are composed. Debian's packages
// tuxpaint-stamps-default and mate-backgrounds have both.
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
  // Folders of cut-outs below the set's path, which are the classes.
  std::vector<std::string> categories{"animals", "food", "plants", "town", "vehicles"};
  double test_fraction = 0.2;  // of the photographs, and of the cut-outs of every category
  static const options::Schema& schema();
};

struct CutoutMaterial {
  std::vector<Tensor> photographs{};           // u8 [H,W,3]
  std::vector<std::vector<Tensor>> cutouts{};  // by category: u8 [H,W,4], colours multiplied by the opacity
};

struct CutoutHalves {
  CutoutMaterial train, test;  // nothing is in both
};

// Both for scenes of `side` pixels: cut-outs no larger than that, photographs at a few times it. `trimmed`:
// cut-outs end where they are opaque. Throws UserError naming the package when a folder is not there, and
// where there are too few images to test on.
CutoutHalves read_cutouts(const CutoutSources& from, const SetOptions& common, Index side, bool trimmed);

// One of them at random.
const Tensor& any_of(const std::vector<Tensor>& images, RandomStream& random);

// Fills an image, u8 [S,S,3], with a square part of a photograph at random, mirrored or not.
void draw_background(const Tensor& photograph, RandomStream& random, const Tensor& image);

// Lays a cut-out over what is in `to` of the image. `solid`, where given, [S,S], gets `label` where the
// cut-out hides more than half.
void draw_cutout(const Tensor& cutout, const Rect& to, bool mirrored, const Tensor& image,
                 const Tensor& solid = {}, std::uint8_t label = 0);

}  // namespace tandem::datasets
