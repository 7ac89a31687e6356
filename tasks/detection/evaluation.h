// The figures of a detector: COCO's and VOC's over the whole set, and its loss.
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

// What the results of an evaluation in VOC's format lack, so that there are none: an image whose name cannot
// stand there, or that has none of its own. "" where nothing does. `names` as below.
std::string lacking_for_voc(std::span<const std::int64_t> images,
                            const std::map<std::int64_t, std::string>& names);

// Figures that an evaluation of the first `images` of the corpus does not define, by name, with the reason.
// Throws UserError for objects that no evaluation takes.
std::map<std::string, std::string> undefined_figures(const datasets::BoxCorpus& corpus, Index images);

// What an evaluation is of. Kept by reference.
struct EvaluatedDetector {
  models::Detector& model;
  const DetectionOptions& options;
  const datasets::DatasetInfo& info;
  const datasets::BoxClasses& classes;
  const datasets::Affine& affine;                          // of the pixels
  const std::map<std::int64_t, std::string>& image_names;  // for VOC's results, where all are known
};

class DetectionEvaluation final : public Evaluation {
 public:
  DetectionEvaluation(const EvaluatedDetector& of, bool details);

  // An image that comes again, in the place of one that cannot be read (data.skip_bad_samples), counts once,
  // but in the loss.
  //
  // The loss; of each image its number, size, objects and what is found; of those that are shown their pixels
  // and the boxes of the batch, too. Boxes are compared in pixels of the images as the data set has them.
  Record forward(const datasets::Batch& batch) override;
  void accumulate(std::span<const std::byte> record) override;
  // COCO's figures that there are objects for, mAP, loss.
  Metrics metrics() const override;
  // AP and AP50 (COCO's), VOC's figure, and COCO's curve of 101 points at an overlap of 0.5.
  std::optional<Breakdown> breakdown() const override;
  // The same as members "classes", "AP", "AP50", "voc" and "precision", null of classes without an object;
  // "warnings" where there are some.
  Json details() const override;
  std::vector<Artifact> artifacts() const override;

 private:
  struct Figures {
    metrics::CocoResult coco;
    metrics::VocResult voc;
  };
  // A FoundBox, as far as anybody asks for it.
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
  Index samples_ = 0;                       // that the loss is of
  std::unordered_set<std::int64_t> taken_;  // the numbers of `images_`
  PictureSheet examples_;
  mutable std::optional<Figures> figures_;  // of what was added so far
};

}  // namespace tandem::tasks
