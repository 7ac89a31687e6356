// Recomputation of activations (Chen et al. 2016, "Training deep nets with sublinear memory cost"), as
// PyTorch's torch.utils.checkpoint: less memory for a second forward pass.
#pragma once

#include <functional>
#include <span>

#include "autograd/leaf.h"
#include "core/scoped_value.h"

namespace tandem {

using RecomputedFunction = std::function<TensorList(const TensorList& inputs)>;

// Calls function(inputs) and keeps only the inputs. Backward runs the function a second time, records it
// then, and continues in it, so values and gradients have the bits of an ordinary call: the second pass draws
// the random numbers of the first, and repeats its casts and types, whatever scopes are active in backward.
//
// `parameters` are all that the function reads. Other tensors with gradients must be inputs; inputs may be
// absent. The function must not write what outlives it, such as a cache or running statistics (batch norm
// refuses to), and what it refers to must exist and stay unchanged until backward. It runs as usual if
// nothing is recorded, in the first pass of another such function, and in the scopes HigherOrder and
// KeepActivations.
//
// Throws UserError in backward for create_graph, for inputs or parameters written since, for other ops than
// in the first pass, and for a gradient of a tensor that is neither input nor parameter.
TensorList recomputed(const RecomputedFunction& function, const TensorList& inputs,
                      std::span<const Parameter> parameters = {});

// Scope in which recomputed() records at once, for analyses of the graph of a forward pass.
class KeepActivations : ScopedValue<bool> {
 public:
  KeepActivations();
};

// Whether this thread runs a second pass, which is part of backward.
bool recomputes();

}  // namespace tandem
