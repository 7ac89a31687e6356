// A training step, of one phase, beside the same step in f32: same weights, batches and random numbers.
#pragma once

#include <string>
#include <vector>

#include "amp/autocast.h"
#include "amp/segmented_loss_scale.h"
#include "config/load.h"
#include "studies/inspect/workbench.h"

namespace tandem::planning {

class ShadowStep {
 public:
  struct Outcome {
    double loss = 0.0;
    std::vector<float> gradient;  // of all parameters, one after the other, without the loss scale
  };

  // `weights` as Workbench has them. Steps are done on the first `batches` batches of training.
  ShadowStep(const config::Loaded& loaded, const runs::Weights& weights, int batches, std::size_t phase = 0);

  nn::Module& model() { return bench_.model(); }
  const train::Workbench& bench() const { return bench_; }
  int batches() const { return static_cast<int>(batches_.size()); }
  int runs() const { return runs_; }

  // From now on steps have the segments of the loss scale of these borders; null: none. They are alive in
  // every run().
  void set_borders(const amp::SegmentedLossScale* borders) { borders_ = borders; }

  // Forward and loss of a batch, without a backward; statistics stay as they are.
  Tensor forward(const amp::ResolvedPrecision& plan, int batch);
  // Loss and gradient of a step that leaves nothing behind.
  Outcome run(const amp::ResolvedPrecision& plan, int batch, double scale);
  // The greater of ‖g - g32‖/‖g32‖ and |L - L32|/|L32|; infinite where anything is not finite.
  double error(const amp::ResolvedPrecision& plan, int batch, double scale) {
    return difference(run(plan, batch, scale), batch);
  }
  double difference(const Outcome& outcome, int batch) const;
  // The error that moving every weight by one unit in the last place makes in f32, on the first batch.
  double noise();

 private:
  const amp::ResolvedPrecision full_;
  train::Workbench bench_;
  const std::size_t phase_;
  std::vector<datasets::Batch> batches_;
  std::vector<Outcome> wide_;
  const amp::SegmentedLossScale* borders_ = nullptr;
  int runs_ = 0;
};

}  // namespace tandem::planning
