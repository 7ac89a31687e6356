// ShadowStep: a training step of one phase, compared with the same step in f32 with the same weights, batches
// and random numbers.
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
    std::vector<float> gradient;  // of all parameters, concatenated, without the loss scale
  };

  // `weights` as in Workbench. Steps use the first `batches` training batches.
  ShadowStep(const config::Loaded& loaded, const runs::Weights& weights, int batches, std::size_t phase = 0);

  nn::Module& model() { return bench_.model(); }
  const train::Workbench& bench() const { return bench_; }
  int batches() const { return static_cast<int>(batches_.size()); }
  int runs() const { return runs_; }

  // Sets the segment borders of later steps; null: none. They must outlive every run().
  void set_borders(const amp::SegmentedLossScale* borders) { borders_ = borders; }

  // Forward and loss of a batch, without backward; statistics do not change.
  Tensor forward(const amp::ResolvedPrecision& resolved, int batch);
  // Loss and gradient of a step; changes no state.
  Outcome run(const amp::ResolvedPrecision& resolved, int batch, double scale);
  // The greater of ‖g - g32‖/‖g32‖ and |L - L32|/|L32|; infinite if a value is not finite.
  double error(const amp::ResolvedPrecision& resolved, int batch, double scale) {
    return difference(run(resolved, batch, scale), batch);
  }
  double difference(const Outcome& outcome, int batch) const;
  // Error in f32, on the first batch, if every weight moves by one unit in the last place.
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
