// Activation penalties in the training loss of a language model.
#pragma once

#include "models/causal_model.h"

namespace tandem::tasks {

// loss + ar·mean(h²) of the last layer's output after dropout + tar·mean((h_{t+1} − h_t)²) of it before
// dropout (Merity, McCann and Socher, "Revisiting activation regularization for language RNNs", 2017), in
// f32. With a single step the last term is 0.
Tensor penalised(const Tensor& loss, const models::CausalModel::Advanced& advanced, double ar, double tar);

}  // namespace tandem::tasks
