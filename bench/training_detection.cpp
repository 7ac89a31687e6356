#include <utility>

#include "bench/synthetic.h"
#include "bench/training_of_one.h"
#include "core/kernels/random.h"
#include "models/multibox.h"
#include "models/ssd.h"
#include "optim/sgd.h"
#include "tandem.h"

namespace tandem::bench {

namespace {

std::shared_ptr<models::Ssd> detector_of(const Detection& workload) {
  return std::dynamic_pointer_cast<models::Ssd>(
      models::build(workload.model, {.sample = workload.images.without(0), .classes = workload.classes}));
}

struct DetectionModel {
  std::shared_ptr<models::Ssd> ssd;
  optim::Sgd optimizer;

  explicit DetectionModel(const Detection& workload)
      : ssd(detector_of(workload)),
        optimizer(ssd->parameters(), {.lr = 1e-3, .momentum = 0.9, .weight_decay = 5e-4}) {}
};

class DetectionTraining final : DetectionModel, public TrainingOfOne {
 public:
  DetectionTraining(const Detection& workload, const amp::Precision& precision)
      : DetectionModel(workload),
        TrainingOfOne(*ssd, optimizer, precision),
        images_(Tensor::empty(workload.images)),
        boxes_(synthetic_objects(workload.images[0], workload.objects, workload.classes)) {
    backend_for({}).random().random_normal({.seed = 1}, images_, 0.0, 1.0);
  }
  Index items() const override { return images_.size(0); }

 private:
  Tensor forward() override {
    output_ = (*ssd)(images_);
    return output_.scores;
  }
  Tensor loss(const Tensor&) override {
    return models::multibox_loss(std::exchange(output_, {}), ssd->anchors(), boxes_, {}).total;
  }

  Tensor images_, boxes_;
  models::AnchorOutput output_;  // between forward and loss
};

}  // namespace

TrainingPtr detection(const Detection& workload, const amp::Precision& precision) {
  return std::make_unique<DetectionTraining>(workload, precision);
}

}  // namespace tandem::bench
