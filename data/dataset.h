// Dataset: numbered samples. Decorators (data/decorators.h) change a dataset, sources batch it, and readers
// (one file per format) open one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

// One example. Fields that a data set lacks keep their defaults.
struct Sample {
  // u8 [H,W,C], or f32 or i64 of any shape. Read-only; may be a view of the data set's memory.
  Tensor image;
  std::int64_t label = 0;  // in [0, classes)
  // u8 [H,W]: the class of each pixel, or kIgnored. Read-only, like the image.
  Tensor mask{};
  // Data sets with boxes: the objects in pixels of the image, and the image's id (BoxImage::id).
  std::vector<BoxObject> objects{};
  std::int64_t id = 0;
};

// Mask value of pixels that do not count: of unknown class, or padding.
inline constexpr std::uint8_t kIgnored = 255;

// Mean and standard deviation per channel (or one for all), of u8 pixels divided by 255 or of unscaled f32
// values.
struct ChannelStatistics {
  std::vector<float> mean{0.0F};
  std::vector<float> stddev{1.0F};
};

struct DatasetInfo {
  std::string name{};
  DType dtype = DType::u8;  // of the images: u8 or f32; i64 if the features are indices
  Shape sample_shape{};     // [H,W,C]; 0 is an extent that varies
  Index classes = 0;
  std::vector<std::string> class_names{};  // empty if unknown
  std::vector<Index> class_values{};       // of masks: the pixel value in the files of each class; or empty
  bool masks = false;                      // samples have a mask instead of a label; `classes` are of pixels
  bool as_stored = false;                  // EXIF orientation is ignored
  // Largest number of objects of a sample, which has objects instead of a label; class 0 is the background.
  // Absent: samples have a label or a mask.
  std::optional<Index> most_objects{};
  ChannelStatistics statistics{};  // for normalisation

  bool boxes() const { return most_objects.has_value(); }
};

// Indices stay i64; all other values become f32.
inline DType batch_dtype(const DatasetInfo& info) {
  return info.dtype == DType::i64 ? DType::i64 : DType::f32;
}

// False for features and indices.
inline bool are_images(const DatasetInfo& info) {
  return info.sample_shape.rank() == 3 && info.dtype != DType::i64;
}

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual Index size() const = 0;
  // Thread-safe. Throws UserError that names the file when the sample cannot be read.
  virtual Sample get(Index index) const = 0;

  const DatasetInfo& info() const { return info_; }
  void set_statistics(ChannelStatistics statistics) { info_.statistics = std::move(statistics); }
  // True if `get` decodes a file, which takes longer than to copy a sample.
  virtual bool decodes() const { return false; }
  // The images with boxes behind the samples, in the same order; nullptr without boxes.
  virtual const BoxCorpus* box_corpus() const { return nullptr; }

 protected:
  DatasetInfo info_;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

// A data set in memory: images [N, …] (u8, f32 or i64) and labels i64 [N]; `get` returns views.
class InMemoryDataset final : public Dataset {
 public:
  // Images [N,H,W] become [N,H,W,1], unless they are indices. Sets `info.sample_shape` and `dtype`; an
  // `info.classes` of 0 becomes the highest label + 1. Throws UserError in the name of `source` when there
  // are no samples, the counts differ or a label lies outside [0, classes).
  InMemoryDataset(Tensor images, Tensor labels, DatasetInfo info, const std::string& source);

  Index size() const override { return size_; }
  Sample get(Index index) const override;

  const Tensor& images() const { return images_; }
  const Tensor& labels() const { return labels_; }

 private:
  Tensor images_, labels_;
  Index size_ = 0;
  std::size_t sample_bytes_ = 0;
};

// Throws UserError in the name of `source`, with the first sample and position, when images [N, …] contain a
// NaN or an infinity.
void require_finite(const Tensor& images, const std::string& source);

// Statistics per channel (last axis) of the first `at_most` samples, for images of one size. Indices have
// mean 0 and deviation 1.
ChannelStatistics statistics_of(const Dataset& dataset, Index at_most = 20000);

}  // namespace tandem::datasets
