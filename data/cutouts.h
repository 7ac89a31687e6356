// Colour scenes with a mask each: cut-outs with transparency on parts of photographs, composed as they are
// asked for. Debian's packages tuxpaint-stamps-default and mate-backgrounds have both.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "data/labelled_set.h"

namespace tandem::datasets {

inline constexpr const char* kCutoutFolder = "/usr/share/tuxpaint/stamps";
inline constexpr const char* kPhotographFolder = "/usr/share/backgrounds/mate/nature";

struct CutoutOptions {
  std::optional<std::string> photographs{};  // folder; absent: kPhotographFolder
  // Folders of cut-outs below the set's path, which are the classes after "background".
  std::vector<std::string> categories{"animals", "food", "plants", "town", "vehicles"};
  Index image_size = 96;
  Index most = 3;                          // cut-outs in a scene; how many there are is drawn from 0 on
  std::array<double, 2> scale{0.35, 0.8};  // range of a cut-out's longer side, as a share of the scene's
  double test_fraction = 0.2;              // of the photographs, and of the cut-outs of every category
};

// What scenes are composed of.
struct CutoutMaterial {
  std::vector<Tensor> photographs{};           // u8 [H,W,3]
  std::vector<std::vector<Tensor>> cutouts{};  // by category: u8 [H,W,4], colours multiplied by the opacity
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
LabelledFamily::Entry cutouts_entry();

}  // namespace tandem::datasets
