#include "studies/plan/shadow.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "core/backend.h"
#include "nn/scopes.h"
#include "train/perturbation.h"

namespace tandem::planning {

ShadowStep::ShadowStep(const config::Loaded& loaded, const runs::Weights& weights, int batches,
                       std::size_t phase)
    : full_(amp::Precision::fp32()), bench_(loaded, weights), phase_(phase) {
  for (int i = 0; i < batches; ++i) batches_.push_back(bench_.next_batch());
  for (int i = 0; i < batches; ++i) wide_.push_back(run(full_, i, 1.0));
}

Tensor ShadowStep::forward(const amp::ResolvedPrecision& resolved, int batch) {
  const nn::KeepStatistics keep(model());
  return bench_.loss(batches_[static_cast<std::size_t>(batch)], resolved, static_cast<std::uint32_t>(batch),
                     phase_);
}

ShadowStep::Outcome ShadowStep::run(const amp::ResolvedPrecision& resolved, int batch, double scale) {
  ++runs_;
  model().clear_gradients();
  const amp::BorderScope crossing(borders_);
  const Tensor loss = forward(resolved, batch);
  crossing.finish(loss);
  backward(loss, scale);
  Outcome outcome{.loss = loss.item()};
  for (const Parameter& parameter : model().parameters()) {
    const Tensor gradient = parameter.gradient();
    if (!gradient.defined()) {
      outcome.gradient.resize(outcome.gradient.size() + static_cast<std::size_t>(parameter.value().numel()));
      continue;
    }
    const double carried = borders_ ? std::ldexp(scale, borders_->log2_scale_of(parameter)) : scale;
    for (const float value : gradient.to_vector<float>())
      outcome.gradient.push_back(static_cast<float>(value / carried));
  }
  model().clear_gradients();
  return outcome;
}

double ShadowStep::difference(const Outcome& outcome, int batch) const {
  const Outcome& wide = wide_[static_cast<std::size_t>(batch)];
  double apart = 0.0, whole = 0.0;
  for (std::size_t i = 0; i < wide.gradient.size(); ++i) {
    const double value = wide.gradient[i], delta = outcome.gradient[i] - value;
    apart += delta * delta;
    whole += value * value;
  }
  const double of_loss = std::abs(outcome.loss - wide.loss) / std::max(std::abs(wide.loss), 1e-30);
  const double of_gradient = std::sqrt(apart / std::max(whole, 1e-60));
  const bool finite = std::isfinite(of_gradient) && std::isfinite(of_loss);
  return finite ? std::max(of_gradient, of_loss) : std::numeric_limits<double>::infinity();
}

double ShadowStep::noise() {
  std::vector<Tensor> before;
  for (const Parameter& parameter : model().parameters()) before.push_back(parameter.value().clone());
  train::perturb(model(), 1, 1);
  const double error = difference(run(full_, 0, 1.0), 0);
  std::size_t next = 0;
  for (const Parameter& parameter : model().parameters()) {
    const Tensor& value = parameter.value();
    backend_for(value.device()).copy_bytes(before[next++], value);
    value.storage()->bump_version();
  }
  return error;
}

}  // namespace tandem::planning
