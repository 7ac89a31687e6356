// Gradient clipping for loops without optim::Step, in place on the gradients of leaves. Leaves without a
// gradient are passed over. Inside a Step use StepOptions::clip_norm and clip_value, which cost no pass of
// their own.
//
// Errors: UserError for a tensor that is no leaf, for leaves on several devices, and for a bound that is not
// positive.
#pragma once

#include <vector>

#include "autograd/leaf.h"

namespace tandem::optim {

// Scales all gradients by min(1, max_norm / (norm + 1e-6)) where norm is the 2-norm of all of them together,
// accumulated in f64 (Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks",
// 2013). Returns the norm before clipping; waits for the device. A norm that is not finite clips nothing.
double clip_grad_norm(const std::vector<Tensor>& leaves, double max_norm);
double clip_grad_norm(const std::vector<Parameter>& parameters, double max_norm);

// Limits every element to [-limit, limit].
void clip_grad_value(const std::vector<Tensor>& leaves, double limit);
void clip_grad_value(const std::vector<Parameter>& parameters, double limit);

}  // namespace tandem::optim
