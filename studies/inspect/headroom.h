// Headroom: distance of each layer's gradients from the overflow limit of FP16, at a loss scale.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "studies/inspect/gradients.h"

namespace tandem::inspect {

struct LayerHeadroom {
  std::string name;
  // 15 - greatest exponent - k of the activation gradients: doublings until an overflow; at 0 the next
  // doubling may overflow. Absent if all are zero.
  std::optional<int> bits;
  double flushed = 0.0;  // share of non-zero gradients that FP16 flushes to zero
};

struct HeadroomReport {
  int log2_scale = 0;
  std::vector<LayerHeadroom> layers;  // in the order of forward
  LayerHeadroom all;
  // Layers with less than one bit of headroom.
  std::vector<std::string> narrow() const;
};

// Headroom of gradients measured in f32, times 2^log2_scale.
HeadroomReport headroom(const GradientReport& gradients, int log2_scale);

// log2 of the loss scale, rounded down: that of the checkpoint of `weights`, or the initial one of the
// configuration.
int log2_scale_of(const config::Loaded& loaded, const runs::Weights& weights);

}  // namespace tandem::inspect
