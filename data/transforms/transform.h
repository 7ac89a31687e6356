// Transforms of single images: what an augmentation is, its parameters, and the table of all of them.
//
// A transform draws its random choices from the stream it is given, which belongs to (seed, epoch, sample,
// position in the list) alone; so the result does not depend on threads or on the order of samples.
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

// A transform by name, as a configuration gives it: "random_crop", or {"name": "cutout", "size": 8}. A number
// is a list of one, a boolean 0 or 1; what is not given has its default.
struct TransformSpec {
  std::string name;
  std::map<std::string, std::vector<double>> parameters;
  static const options::Schema& schema();
};

// Height and width of images; 0 where they differ from image to image.
struct Extents {
  Index height = 0, width = 0;

  bool known() const { return height > 0 && width > 0; }
  friend bool operator==(const Extents&, const Extents&) = default;
};

// What a transform does to the part of an image that is shown, at most.
enum class WindowEffect {
  flips,
  crops,   // shows less than before
  pads,    // shows what lies outside of what was shown
  beyond,  // changes or resamples pixels
};

class Transform {
 public:
  virtual ~Transform() = default;
  // Throws UserError when images of extents `in` cannot be transformed.
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
  bool random = true;  // evaluation keeps those that are not
  // Of stage `sample`, from options of the schema.
  std::function<std::unique_ptr<Transform>(const void* options)> make = nullptr;
};

// In the order documents list them.
const std::vector<TransformInfo>& all_transforms();

// Throws UserError with the nearest known name. "normalize" is understood.
const TransformInfo& transform_info(const std::string& name);

// The parameters of a spec as the struct that its transform describes, defaults filled in. Throws UserError
// for an unknown name (with the nearest known one), a wrong number of values, or one out of range.
options::Record parameters_of(const TransformInfo& transform, const TransformSpec& spec);
// The values of a parameter; of its default.
std::vector<double> numbers_of(const options::Value& value);
// And back, as a key of that kind has it.
options::Value value_of(const std::vector<double>& numbers, options::Type::Kind kind);

// T is made from the options that are described.
template <class T, class Options>
TransformInfo transform(std::string name, std::string help, options::Describe<Options> keys, bool random) {
  return {{std::move(name), std::move(help), keys}, TransformStage::sample, random, [](const void* options) {
            return std::make_unique<T>(*static_cast<const Options*>(options));
          }};
}

// The families of the table.
std::vector<TransformInfo> geometric_transforms();
std::vector<TransformInfo> colour_transforms();
std::vector<TransformInfo> detection_transforms();

// What evaluation does for a list made for training: transforms without randomness stay; a random_crop to a
// given size becomes a centre crop, a random_resized_crop a resize of the shorter side to size/0.875 with a
// centre crop; the other random ones go.
std::vector<TransformSpec> evaluation_transforms(std::span<const TransformSpec> training);

}  // namespace tandem::datasets
