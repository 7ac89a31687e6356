// Detection metrics: COCO's and VOC's over the whole set, and the loss.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "data/boxes/box_corpus.h"
#include "data/dataset.h"
#include "data/sample_source.h"
#include "data/transforms/render.h"
#include "metrics/coco.h"
#include "metrics/voc.h"
#include "models/detector.h"
#include "tasks/detection/options.h"
#include "tasks/drawing.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Reason why an evaluation's results cannot be written in VOC's format: an image whose name is not valid
// there or not unique; "" if none. `names` as below.
std::string lacking_for_voc(std::span<const std::int64_t> images,
                            const std::map<std::int64_t, std::string>& names);

// Metrics that are undefined on the first `images` of the corpus, by name, with the reason. Throws UserError
// for objects that the metrics reject.
std::map<std::string, std::string> undefined_figures(const datasets::BoxCorpus& corpus, Index images);

// Context of an evaluation. Keeps references.
struct EvaluatedDetector {
  models::Detector& model;
  const DetectionOptions& options;
  const datasets::DatasetInfo& info;
  const datasets::BoxClasses& classes;
  const datasets::Affine& affine;                          // of the pixels
  const std::map<std::int64_t, std::string>& image_names;  // for VOC's results, if all are known
};

class DetectionEvaluation final : public Evaluation {
 public:
  DetectionEvaluation(const EvaluatedDetector& of, bool details);

  // An image that replaces an unreadable one (data.skip_bad_samples) counts only once, except in the loss.
  //
  // The loss; of each image its number, size, objects and detections; of the shown ones also their pixels and
  // the batch's boxes. Boxes are compared in pixels of the original images.
  Record forward(const datasets::Batch& batch) override;
  void accumulate(std::span<const std::byte> record) override;
  // COCO's metrics that have objects, mAP, loss.
  Metrics metrics() const override;
  // AP and AP50 (COCO's), VOC's AP, and COCO's curve of 101 points at IoU 0.5.
  std::optional<Breakdown> breakdown() const override;
  // The same as members "classes", "AP", "AP50", "voc" and "precision", null for classes without an object;
  // "warnings" if any.
  Json details() const override;
  std::vector<Artifact> artifacts() const override;

 private:
  struct Figures {
    metrics::CocoResult coco;
    metrics::VocResult voc;
  };
  // The used members of a FoundBox.
  struct Found {
    models::UnitBox box;
    std::int32_t label;
    float score;
  };
  void take_image(RecordReader& from);
  void add_truth(const std::vector<datasets::ObjectRow>& objects, std::int64_t image);
  void add_example(const Tensor& picture, const std::vector<datasets::BoxRow>& truth,
                   const std::vector<Found>& found);
  metrics::GroundTruth truth() const;
  const Figures& figures() const;
  std::int64_t category_of(Index label) const;

  EvaluatedDetector of_;
  bool details_;
  std::vector<std::int64_t> images_, categories_;
  std::vector<metrics::TrueBox> truth_;
  std::vector<metrics::Detection> detections_;
  double loss_ = 0.0;
  Index samples_ = 0;                       // of the loss
  std::unordered_set<std::int64_t> taken_;  // the numbers of `images_`
  PictureSheet examples_;
  mutable std::optional<Figures> figures_;  // cached result of the records so far
};

}  // namespace tandem::tasks
