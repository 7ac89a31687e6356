// Gradient clipping for loops without optim::Step, in place on the gradients of leaves. Leaves without a
// gradient are skipped. Inside a Step use StepOptions::clip_norm and clip_value, which need no extra pass.
//
// Errors: UserError for a tensor that is not a leaf, leaves on several devices, and a non-positive bound.
#pragma once

#include <vector>

#include "autograd/leaf.h"

namespace tandem::optim {

// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is their global 2-norm accumulated in
// f64 (Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013). Returns
// the norm before clipping; synchronises. A non-finite norm clips nothing.
double clip_grad_norm(const std::vector<Tensor>& leaves, double max_norm);
double clip_grad_norm(const std::vector<Parameter>& parameters, double max_norm);

// Clamps every element to [-limit, limit].
void clip_grad_value(const std::vector<Tensor>& leaves, double limit);
void clip_grad_value(const std::vector<Parameter>& parameters, double limit);

}  // namespace tandem::optim
