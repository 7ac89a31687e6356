// Dataset: numbered samples. Everything else is a decorator (data/decorators.h), a source (one file per
// format) or the Loader that makes batches of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

// One example. Tasks add the fields they need; a field that a data set lacks stays at its default.
struct Sample {
  // u8 [H,W,C], or f32 or i64 of any shape; read-only, possibly a view of the data set's own memory.
  Tensor image;
  std::int64_t label = 0;  // in [0, classes)
  // u8 [H,W] of the image's extents, the class of each pixel or kIgnored; likewise read-only.
  Tensor mask{};
  // With boxes: those of the image, in its pixels, and the image's own number (BoxImage::id).
  std::vector<BoxObject> objects{};
  std::int64_t id = 0;
};

// A pixel of a mask that counts for nothing: of no known class, or outside of what there is.
inline constexpr std::uint8_t kIgnored = 255;

// Mean and standard deviation per channel, of u8 pixels divided by 255 and of f32 values as they are.
// One entry, or one per channel.
struct ChannelStatistics {
  std::vector<float> mean{0.0F};
  std::vector<float> stddev{1.0F};
};

struct DatasetInfo {
  std::string name{};
  DType dtype = DType::u8;  // of the images: u8 or f32; i64 where features are indices
  Shape sample_shape{};     // [H,W,C]; an extent of 0 varies from sample to sample
  Index classes = 0;
  std::vector<std::string> class_names{};  // empty where unknown
  std::vector<Index> class_values{};       // with masks, what stands in the files for each class; or empty
  bool masks = false;                      // samples have a mask in place of a label; classes are of pixels
  bool as_stored = false;                  // images of files are not turned as their EXIF orientation says
  // Samples have objects in place of a label, at most so many; class 0 is the background. Absent: none.
  std::optional<Index> most_objects{};
  ChannelStatistics statistics{};  // what to normalise with

  bool boxes() const { return most_objects.has_value(); }
};

// In which a batch holds the samples: indices stay as they are, everything else becomes numbers.
inline DType batch_dtype(const DatasetInfo& info) {
  return info.dtype == DType::i64 ? DType::i64 : DType::f32;
}

// Rather than features or indices.
inline bool are_images(const DatasetInfo& info) {
  return info.sample_shape.rank() == 3 && info.dtype != DType::i64;
}

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual Index size() const = 0;
  // Sample `index` of [0, size()). Called from several threads at once. Throws UserError that names the file
  // when the sample cannot be read.
  virtual Sample get(Index index) const = 0;

  const DatasetInfo& info() const { return info_; }
  void set_statistics(ChannelStatistics statistics) { info_.statistics = std::move(statistics); }
  // True when `get` has to decode; workers then balance their load sample by sample.
  virtual bool decodes() const { return false; }
  // The images with boxes whose samples these are, one each, in their order; nullptr: they are of none.
  virtual const BoxCorpus* box_corpus() const { return nullptr; }

 protected:
  DatasetInfo info_;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

// A data set whose images [N, …] (u8, f32 or i64) and labels i64 [N] lie in memory; `get` returns views.
class InMemoryDataset final : public Dataset {
 public:
  // Images [N,H,W] are grey [N,H,W,1], unless they are indices. `info.sample_shape` and `dtype` are filled
  // in; `info.classes` of 0 means the highest label + 1. Throws UserError in the name of `source` when there
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

// Throws UserError in the name of `source`, with the first sample and place, where images [N, …] hold a NaN
// or an infinity: no training survives one, and nothing that happens then tells of it.
void require_finite(const Tensor& images, const std::string& source);

// Statistics per channel (last axis) of the first `at_most` samples; for images of one size. Indices have
// none: mean 0, deviation 1.
ChannelStatistics statistics_of(const Dataset& dataset, Index at_most = 20000);

}  // namespace tandem::datasets
