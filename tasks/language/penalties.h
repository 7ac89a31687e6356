// Penalties that training adds to the loss of a language model.
#pragma once

#include "models/causal_model.h"

namespace tandem::tasks {

// loss + ar·mean(h²) of what the last layer gave after dropout + tar·mean((h_{t+1} − h_t)²) of it before
// (Merity, McCann and Socher, "Revisiting activation regularization for language RNNs", 2017), in f32. One
// step has no change.
Tensor penalised(const Tensor& loss, const models::CausalModel::Advanced& advanced, double ar, double tar);

}  // namespace tandem::tasks
