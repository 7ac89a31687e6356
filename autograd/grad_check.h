// Numerical gradient check: central differences in f64 against backward.
//
// The output gradient is one fixed random tensor v, so each input element gives one comparison of Σ v·∂f/∂x;
// a wrong Jacobian is found with probability one. Second order checks the function (x, v) ↦ gradients(f, v,
// x), which a gradient penalty differentiates.
#pragma once

#include <functional>
#include <string>

#include "core/tensor.h"

namespace tandem {

// Must be deterministic and use every input through taped ops.
using DifferentiableFunction = std::function<Tensor(const TensorList&)>;

// Defaults of torch.autograd.gradcheck.
struct GradCheckOptions {
  double eps = 1e-6;   // step of the central difference
  double atol = 1e-5;  // passes when |analytic - numerical| <= atol + rtol·|numerical|
  double rtol = 1e-3;
  std::uint64_t seed = 0;  // of the random output gradients
};

struct GradCheckReport {
  bool passed = true;
  Index compared = 0;      // number of compared elements
  double max_error = 0.0;  // largest |analytic - numerical|; infinity when one of them is NaN
  // The element with the largest error relative to its tolerance.
  int input = -1;
  Index element = -1;
  double analytic = 0.0, numerical = 0.0;
  std::string note;  // reason of a failure that is not due to an element
};

// "failed: input 1, element 5: analytic 2, numerical 4 (24 elements, largest error 2)"
std::string to_string(const GradCheckReport& report);

// Checks the gradient of `function` with respect to every floating input at the given point; other inputs
// (labels, indices) are passed through. Keep the inputs a few eps away from kinks. Throws UserError when a
// floating input or the output is not f64, and whatever the function throws.
GradCheckReport grad_check(const DifferentiableFunction& function, const TensorList& inputs,
                           const GradCheckOptions& options = {});

// The same for the first gradient under create_graph, and then for the gradient of that gradient with respect
// to the inputs and the output gradient. Runs inside a HigherOrder scope.
GradCheckReport grad_grad_check(const DifferentiableFunction& function, const TensorList& inputs,
                                const GradCheckOptions& options = {});

}  // namespace tandem
