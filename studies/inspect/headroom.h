// How far the gradients of each layer are from what FP16 can hold, at a loss scale.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "studies/inspect/gradients.h"

namespace tandem::inspect {

struct LayerHeadroom {
  std::string name;
  // 15 - greatest exponent - k, of activation gradients: bits until something overflows; 0: the next doubling
  // may. Absent where all are zero.
  std::optional<int> bits;
  double flushed = 0.0;  // share of those that are not zero, which FP16 makes zero
};

struct HeadroomReport {
  int log2_scale = 0;
  std::vector<LayerHeadroom> layers;  // in the order of forward
  LayerHeadroom all;
  // The layers with less than one bit left.
  std::vector<std::string> narrow() const;
};

// Of gradients that were seen in f32, times 2^log2_scale.
HeadroomReport headroom(const GradientReport& gradients, int log2_scale);

// The log2 of the loss scale with which a run goes on (its newest checkpoint, or that of `weights`), or,
// where there is none, with which the configuration starts; rounded down.
int log2_scale_of(const config::Loaded& loaded, const runs::Weights& weights);

}  // namespace tandem::inspect
