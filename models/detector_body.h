// DetectorBody: the backbone of a detector, which computes feature maps at several scales.
#pragma once

#include <vector>

#include "models/foreign_names.h"
#include "nn/module.h"

namespace tandem::models {

class DetectorBody : public nn::Module {
 public:
  // Images [N,S,S,C] → maps [N,s,s,channels()[i]], the finest first.
  virtual TensorList maps(const Tensor& images) = 0;
  virtual std::vector<Index> channels() const = 0;

  // Names of a classifier's file for loading pretrained weights below the body; empty if there is no such
  // classifier or `file` is not one.
  virtual ForeignNames classifier_names(const safetensors::File&) const { return {}; }

  TensorList forward_outputs(const TensorList& xs) override { return maps(xs.at(0)); }
};

}  // namespace tandem::models
