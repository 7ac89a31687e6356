// Pipeline: a list of transforms for a data set. Converts a sample's image into normalised f32 pixels;
// indices stay unchanged.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/images.h"
#include "data/dataset.h"
#include "data/transforms/mix.h"
#include "data/transforms/transform.h"

namespace tandem::datasets {

// Key of the random draws, besides the transform's position in the list.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint32_t sample = 0;
};

// Outputs of a sample; absent ones are not computed.
struct SampleParts {
  void* image = nullptr;         // output_shape().numel() elements of output_dtype()
  std::uint8_t* mask = nullptr;  // of the result's extents
  std::span<BoxRow> boxes{};
};

class Pipeline {
 public:
  // Transforms run in order. Normalisation comes last wherever it is listed, by default with the data set's
  // statistics. Samples that are not images [H,W,C] are only normalised. Throws UserError on unknown names
  // and parameters, when a transform does not fit the images, and when the results would differ in size.
  explicit Pipeline(const DatasetInfo& info, std::span<const TransformSpec> specs = {});

  // Of one sample: [H,W,C], or the shape of the features.
  const Shape& output_shape() const { return output_; }
  // f32, or i64 for indices.
  DType output_dtype() const { return output_dtype_; }
  const MixOptions& mix() const { return mix_; }
  Index classes() const { return classes_; }
  const Affine& affine() const { return affine_; }

  // Masks and boxes follow the image's geometry. Thread-safe. Throws UserError when the image has an
  // unexpected shape.
  void apply(const Sample& sample, const DrawKey& key, const SampleParts& to) const;
  void apply(const Tensor& image, const DrawKey& key, void* out) const {
    apply({image}, key, {.image = out});
  }

  // True if all samples are 8-bit records of one size and the result is a normalised window of the record. A
  // device can then keep the records and do the rest (Backend::render_images).
  bool takes_windows() const { return takes_windows_; }
  // Shapes of record and result as images [H,W,C]; features count as pixels of one channel.
  Shape record_shape() const { return as_image(input_); }
  Shape window_shape() const { return as_image(output_); }
  // The window of the record that `apply` would show; writes the other parts as `apply` does. Thread-safe;
  // throws as `apply`.
  ImageWindow window(const Sample& sample, const DrawKey& key, const SampleParts& to = {}) const;

 private:
  Shape as_image(const Shape& shape) const { return is_image_ ? shape : Shape{1, shape.numel(), 1}; }
  void transform(const Sample& sample, const DrawKey& key, ImageWork& work) const;
  void set_normalisation(const ChannelStatistics& statistics);

  bool is_image_ = true, takes_windows_ = false;
  Index channels_ = 1;
  float unit_ = 1;  // value of full brightness
  Shape input_, output_;
  DType output_dtype_ = DType::f32;
  Index classes_ = 0;
  Affine affine_;
  std::vector<float> mean_pixel_;
  std::vector<std::shared_ptr<const Transform>> transforms_;
  MixOptions mix_;
};

}  // namespace tandem::datasets
