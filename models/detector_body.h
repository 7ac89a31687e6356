// What a detector looks at an image with: maps of it at several sizes.
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

  // How to read the file of a classifier that the body is the front of, by names below the body; empty: there
  // is none, or `file` is not one.
  virtual ForeignNames classifier_names(const safetensors::File&) const { return {}; }

  TensorList forward_outputs(const TensorList& xs) override { return maps(xs.at(0)); }
};

}  // namespace tandem::models
