// Batches of a data set's numbered samples: shuffled, augmented and normalised.
//
// Fields: "image", [N,H,W,C] or [N,…] features, normalised, or i64 indices; "label" i64 [N], or where the
// data set has masks "mask" u8 [N,H,W], and where it has boxes "box" f32 [N,G,5], a BoxRow each, with
// "object" f64 [N,G,9], the same objects as the data set has them (ObjectRow), and "origin" i64 [N,3],
// number, height and width of the image that they are of; "index" i64 [N], the samples' numbers in the data
// set; and where the pipeline mixes samples "soft_label", f32 [N,classes].
#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/source.h"
#include "data/transforms/pipeline.h"

namespace tandem::datasets {

// Batch::weight from its field "label", or "mask", on the host. Called from several threads at once.
using BatchWeight = std::function<double(const Tensor& labels)>;

// An object as a data set has it, whatever became of it on the way into the batch. Of a row that stands for
// none the label is 0.
struct ObjectRow {
  double x1, y1, x2, y2;  // pixels of the image as it was
  double label, id, area, crowd, difficult;
};
inline constexpr Index kObjectValues = sizeof(ObjectRow) / sizeof(double);

struct SampleOptions {
  Index batch_size = 32;
  bool shuffle = false;
  bool drop_last = false;  // leave out a last batch that is not full
  std::uint64_t seed = 0;
  Device device = {};        // where batches are wanted
  DType dtype = DType::f32;  // of the images, floating; values are f32 rounded once; indices stay i64
  // Absent, and where the pipeline mixes samples: their number, or the pixels of masks that count. Not asked
  // of boxes.
  BatchWeight weigh{};
};

class SampleSource final : public Source {
 public:
  // Throws UserError on a batch size below 1, nothing to serve, a form that the samples cannot have, or parts
  // that there are not.
  SampleSource(DatasetPtr dataset, Pipeline pipeline, SampleOptions options, const ShardSpec& division = {});

  SourcePtr divided(const ShardSpec& division) const override;

  const BatchLayout& layout() const override { return layout_; }
  Index batches(std::uint32_t epoch) const override;
  Index samples_before(const BatchKey& key) const override;
  void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const override;
  Device device() const override { return options_.device; }
  std::unique_ptr<DevicePreprocess> arrival() const override;

  const Dataset& dataset() const { return *dataset_; }
  const Pipeline& pipeline() const { return pipeline_; }
  const SampleOptions& options() const { return options_; }

 private:
  using Order = std::shared_ptr<const std::vector<std::uint32_t>>;
  // The samples of an epoch in their order. The last one asked for is kept.
  Order order(std::uint32_t epoch) const;
  bool keeps_records() const;
  // Of the first `batches` undivided batches.
  Index samples_in(Index batches) const;
  // Once its samples are written: what the batch counts, and mixing.
  void complete(const BatchKey& key, std::span<const std::uint32_t> samples, bool parallel,
                BatchBuffer& buffer) const;

  DatasetPtr dataset_;
  Pipeline pipeline_;
  SampleOptions options_;
  BatchLayout layout_;
  mutable std::mutex mutex_;
  mutable std::uint32_t order_epoch_ = 0;
  mutable Order order_;
};

}  // namespace tandem::datasets
