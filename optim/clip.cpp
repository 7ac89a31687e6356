#include "optim/clip.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/update.h"

namespace tandem::optim {

namespace {

TensorList gradients_of(const std::vector<Tensor>& leaves) {
  TensorList gradients;
  for (const Tensor& leaf : leaves) {
    if (Tensor gradient = gradient_of(leaf); gradient.defined()) gradients.push_back(gradient.detach());
  }
  return gradients;
}

TensorList gradients_of(const std::vector<Parameter>& parameters) {
  TensorList gradients;
  for (const Parameter& parameter : parameters) {
    if (Tensor gradient = parameter.gradient(); gradient.defined()) gradients.push_back(gradient.detach());
  }
  return gradients;
}

void check(const TensorList& gradients, double bound) {
  require(bound > 0.0, "clip", "the bound must be positive, is {}", bound);
  for (const Tensor& gradient : gradients) {
    require(gradient.device() == gradients[0].device(), "clip", "gradients are on {} and {}",
            to_string(gradients[0].device()), to_string(gradient.device()));
    require(gradient.dtype() == DType::f32 || gradient.dtype() == DType::f64, "clip",
            "gradient {} is neither f32 nor f64", to_string(gradient));
  }
}

double norm_of(const TensorList& gradients) {
  Backend& backend = backend_for(gradients[0].device());
  const StepState zero;
  Tensor host = Tensor::empty({sizeof(StepState)}, {.dtype = DType::u8});
  std::memcpy(host.raw(), &zero, sizeof(zero));
  const Tensor state = host.to(backend.device());
  for (const Tensor& gradient : gradients) {
    const UpdateRange all{.count = gradient.numel()};
    backend.update().check_gradients(gradient, {&all, 1}, {.unscaled = true}, state, {});
  }
  host = state.to(Device{});
  backend.synchronize();
  StepState result;
  std::memcpy(&result, host.raw(), sizeof(result));
  return std::sqrt(result.sum_of_squares);
}

double clip_norm(const TensorList& gradients, double max_norm) {
  check(gradients, max_norm);
  if (gradients.empty()) return 0.0;
  const double norm = norm_of(gradients);
  const double factor = max_norm / (norm + 1e-6);
  if (!std::isfinite(norm) || factor >= 1.0) return norm;
  for (const Tensor& gradient : gradients)
    backend_for(gradient.device())
        .update()
        .scale_and_limit(gradient, factor, std::numeric_limits<double>::infinity());
  return norm;
}

void clip_value(const TensorList& gradients, double limit) {
  check(gradients, limit);
  for (const Tensor& gradient : gradients)
    backend_for(gradient.device()).update().scale_and_limit(gradient, 1.0, limit);
}

}  // namespace

double clip_grad_norm(const std::vector<Tensor>& leaves, double max_norm) {
  return clip_norm(gradients_of(leaves), max_norm);
}
double clip_grad_norm(const std::vector<Parameter>& parameters, double max_norm) {
  return clip_norm(gradients_of(parameters), max_norm);
}

void clip_grad_value(const std::vector<Tensor>& leaves, double limit) {
  clip_value(gradients_of(leaves), limit);
}
void clip_grad_value(const std::vector<Parameter>& parameters, double limit) {
  clip_value(gradients_of(parameters), limit);
}

}  // namespace tandem::optim
