// Products of a step with their sizes, and their times for given sizes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "amp/plan/graph.h"
#include "config/task.h"
#include "core/backend.h"
#include "core/op_options.h"
#include "studies/advise/roofline.h"

namespace tandem::advise {

struct Product {
  amp::plan::OpKey key;
  ProductSize size;               // of forward
  Index inputs = 0, outputs = 0;  // channels or features of a layer that can be widened; 0: none
  bool input_gradient = true;
  Shape x, weight;  // inputs of a linear layer or convolution
  std::optional<Conv2dOptions> convolution;

  bool resizable() const { return inputs > 0; }
  // The same layer with other widths.
  Product resized(Index new_inputs, Index new_outputs) const;
  // Bytes of its input, result and weight in 16 bits.
  std::int64_t bytes() const;
};

// Products of a forward with the tape on, in order; for an op with several products, the first. Linear layers
// and convolutions without groups are resizable.
std::vector<Product> products_of(nn::Module& model, const std::function<Tensor()>& forward);
// Products of a phase's forward on a synthetic batch, on the host. Throws as train::trace_of.
std::vector<Product> products_of(const config::Loaded& loaded, const tasks::DataPtr& data,
                                 std::size_t phase = 0);

// Median seconds of forward and gradients of each resizable product, with operands of `dtype`; the products
// are measured in turns.
std::vector<double> times_of(const std::vector<Product>& products, Backend& backend, DType dtype);

}  // namespace tandem::advise
