// Transforms of single images: what an augmentation is, its parameters, and the table of all of them.
//
// A transform draws its random choices from the stream it is given, which belongs to (seed, epoch, sample,
// position in the list) alone; so the result does not depend on threads or on the order of samples.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/options/schema.h"
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

struct ParameterInfo {
  std::string name;
  std::vector<double> defaults;
  double min = 0, max = std::numeric_limits<double>::infinity();
  std::size_t max_count = 1;  // values of a list
  std::string help;
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

// The values of a spec, defaults filled in.
class Parameters {
 public:
  // Throws UserError on an unknown name (with the nearest known one), a wrong number of values, or one out of
  // range.
  Parameters(const TransformSpec& spec, std::span<const ParameterInfo> known);

  const std::vector<double>& list(const std::string& name) const { return values_.at(name); }
  double number(const std::string& name) const { return list(name).front(); }
  Index integer(const std::string& name) const;  // throws UserError when it is not whole

 private:
  std::string transform_;
  std::map<std::string, std::vector<double>> values_;
};

template <class T>
std::unique_ptr<Transform> make_transform(const Parameters& parameters) {
  return std::make_unique<T>(parameters);
}

enum class TransformStage {
  sample,  // a Transform
  batch,   // mixup, cutmix: read by MixOptions
  final,   // normalise: arithmetic of the last step
};

struct TransformInfo {
  std::string name, help;
  std::vector<ParameterInfo> parameters;
  TransformStage stage = TransformStage::sample;
  bool random = true;                                               // evaluation keeps those that are not
  std::unique_ptr<Transform> (*make)(const Parameters&) = nullptr;  // of stage `sample`
};

// In the order documents list them.
const std::vector<TransformInfo>& all_transforms();

// Throws UserError with the nearest known name. "normalize" is understood.
const TransformInfo& transform_info(const std::string& name);

// The families of the table.
std::vector<TransformInfo> geometric_transforms();
std::vector<TransformInfo> colour_transforms();

// What evaluation does for a list made for training: transforms without randomness stay; a random_crop to a
// given size becomes a centre crop, a random_resized_crop a resize of the shorter side to size/0.875 with a
// centre crop; the other random ones go.
std::vector<TransformSpec> evaluation_transforms(std::span<const TransformSpec> training);

}  // namespace tandem::datasets
