// Batches of a data set's samples: shuffled, augmented and normalised.
//
// Fields:
// - "image": [N,H,W,C] or [N,…] features, normalised; or i64 indices
// - "label": i64 [N], for data sets with neither masks nor boxes
// - "mask": u8 [N,H,W], for data sets with masks
// - "box", "object", "origin", for data sets with boxes: f32 [N,G,5] of BoxRow; f64 [N,G,9] of ObjectRow, the
//   same objects as annotated; i64 [N,3], the image's number, height and width
// - "index": i64 [N], the numbers of the samples in the data set
// - "soft_label": f32 [N,classes], if the pipeline mixes samples
#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/source.h"
#include "data/transforms/pipeline.h"

namespace tandem::datasets {

// Batch::weight from the field "label" or "mask" on the host. Called from several threads.
using BatchWeight = std::function<double(const Tensor& labels)>;

// An object as annotated, before transforms. Rows of padding have label 0.
struct ObjectRow {
  double x1, y1, x2, y2;  // pixels of the original image
  double label, id, area, crowd, difficult;
};
inline constexpr Index kObjectValues = sizeof(ObjectRow) / sizeof(double);

struct SampleOptions {
  Index batch_size = 32;
  bool shuffle = false;
  bool drop_last = false;  // leave out an incomplete last batch
  std::uint64_t seed = 0;
  Device device = {};        // device of the batches
  DType dtype = DType::f32;  // floating type of the images, rounded once from f32; indices stay i64
  // Unused with boxes. Without it, and if the pipeline mixes samples, the weight is the number of samples or
  // of counted mask pixels.
  BatchWeight weigh{};
};

class SampleSource final : public Source {
 public:
  // Throws UserError on a batch size below 1, an empty data set, an impossible shape or dtype, or an invalid
  // division.
  SampleSource(DatasetPtr dataset, Pipeline pipeline, SampleOptions options, const ShardSpec& division = {});

  SourcePtr divided(const ShardSpec& division) const override;

  const BatchLayout& layout() const override { return layout_; }
  Index batches(std::uint32_t epoch) const override;
  Index samples_before(const BatchKey& key) const override;
  void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const override;
  Device device() const override { return options_.device; }
  std::unique_ptr<DevicePreprocess> device_preprocess() const override;

  const Dataset& dataset() const { return *dataset_; }
  const Pipeline& pipeline() const { return pipeline_; }
  const SampleOptions& options() const { return options_; }

 private:
  using Order = std::shared_ptr<const std::vector<std::uint32_t>>;
  // Samples of an epoch in order. Caches the last epoch.
  Order order(std::uint32_t epoch) const;
  bool keeps_records() const;
  // Samples in the first `batches` undivided batches.
  Index samples_in(Index batches) const;
  // Sets the weight and mixes samples, after all are written.
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
