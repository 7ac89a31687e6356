// Transforms of single images: interface, parameters and the table of all of them.
//
// A transform draws from a random stream of (seed, epoch, sample, position in the list), so the result does
// not depend on threads or on the order of samples.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/options/registry.h"
#include "core/random.h"
#include "data/transforms/image_work.h"

namespace tandem::datasets {

// A transform in a configuration: "random_crop", or {"name": "cutout", "size": 8}. A number is a list of one,
// a boolean 0 or 1; other parameters have their defaults.
struct TransformSpec {
  std::string name;
  std::map<std::string, std::vector<double>> parameters;
  static const options::Schema& schema();
};

// Height and width of images; 0 if they vary.
struct Extents {
  Index height = 0, width = 0;

  bool known() const { return height > 0 && width > 0; }
  friend bool operator==(const Extents&, const Extents&) = default;
};

// Largest change of a transform to the visible part of an image.
enum class WindowEffect {
  flips,
  crops,   // shows a part of it
  pads,    // shows pixels outside it
  beyond,  // changes or resamples pixels
};

class Transform {
 public:
  virtual ~Transform() = default;
  // Throws UserError when it cannot transform images of extents `in`.
  virtual Extents output(Extents in) const { return in; }
  virtual WindowEffect effect(Extents /*in*/) const { return WindowEffect::beyond; }
  virtual void apply(ImageWork& image, RandomStream& random) const = 0;
};

enum class TransformStage {
  sample,  // a Transform
  batch,   // mixup, cutmix: read by MixOptions
  final,   // normalise: arithmetic of the last step
};

struct TransformInfo : options::Variant {
  TransformStage stage = TransformStage::sample;
  bool random = true;  // removed from evaluation
  // Stage `sample`: makes the transform from options of the schema.
  std::function<std::unique_ptr<Transform>(const void* options)> make = nullptr;
};

// In the order of the documentation.
options::Entries<TransformInfo>& transforms();

// Throws UserError with the nearest known name. Accepts "normalize".
const TransformInfo& transform_info(const std::string& name);

// The parameters of a spec as the transform's options struct, with defaults. Throws UserError for an unknown
// name (with the nearest known one), a wrong number of values, or one out of range.
options::Record parameters_of(const TransformInfo& transform, const TransformSpec& spec);
// The values of a parameter or of its default.
std::vector<double> numbers_of(const options::Value& value);
// The inverse, for a key of that kind.
options::Value value_of(const std::vector<double>& numbers, options::Type::Kind kind);

// The entry of T, which is constructed from Options. `random`: left out in evaluation.
template <class T, class Options>
TransformInfo transform(std::string name, std::string help, options::Describe<Options> keys, bool random) {
  return {{std::move(name), std::move(help), keys}, TransformStage::sample, random, [](const void* options) {
            return std::make_unique<T>(*static_cast<const Options*>(options));
          }};
}

// Parts of the table.
std::vector<TransformInfo> geometric_transforms();
std::vector<TransformInfo> colour_transforms();
std::vector<TransformInfo> detection_transforms();

// The evaluation's version of a training list: transforms without randomness stay; a random_crop with a size
// becomes a centre crop; a random_resized_crop becomes a resize of the shorter side to size/0.875 and a
// centre crop; other random ones are removed.
std::vector<TransformSpec> evaluation_transforms(std::span<const TransformSpec> training);

}  // namespace tandem::datasets
