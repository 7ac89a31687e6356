// The products of a step with their sizes, and their time at these sizes or others.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "amp/plan/graph.h"
#include "config/task.h"
#include "core/backend.h"
#include "studies/advise/roofline.h"

namespace tandem::advise {

struct Product {
  amp::plan::OpKey key;
  ProductSize size;               // of forward
  Index inputs = 0, outputs = 0;  // channels or features that a layer could have more of; 0: of no layer
  bool input_gradient = true;
  Shape x, weight;  // of a linear layer or a convolution, as they are called
  std::optional<Conv2dOptions> convolution;

  bool resizable() const { return inputs > 0; }
  // The same layer with other widths.
  Product resized(Index new_inputs, Index new_outputs) const;
  // Bytes of its input, result and weight in 16 bits.
  std::int64_t bytes() const;
};

// Products of a forward with the tape on, in order; of an op with several, its first. Linear layers and
// convolutions without groups are resizable.
std::vector<Product> products_of(nn::Module& model, const std::function<Tensor()>& forward);
// Of a phase's forward of a made-up batch as the configuration has it, on the host. Throws as
// train::trace_of.
std::vector<Product> products_of(const config::Loaded& loaded, const tasks::DataPtr& data,
                                 std::size_t phase = 0);

// Forward and gradients of a resizable product with operands of `dtype`, in turns of the given ones: the
// median seconds of each.
std::vector<double> times_of(const std::vector<Product>& products, Backend& backend, DType dtype);

}  // namespace tandem::advise
