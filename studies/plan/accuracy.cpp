#include "studies/plan/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "amp/plan/rules.h"
#include "autograd/engine.h"
#include "core/backend.h"
#include "core/error.h"
#include "nn/scopes.h"
#include "studies/inspect/workbench.h"
#include "studies/plan/measure.h"
#include "train/perturbation.h"

namespace tandem::planning {

using amp::plan::Assignment;
using amp::plan::Graph;

namespace {

constexpr int kBatches = 3;  // one to search on, the others to verify
constexpr double kUnits = 16.0;

struct Outcome {
  double loss = 0.0;
  std::vector<float> gradient;
};

class Shadow final : public amp::plan::Oracle {
 public:
  Shadow(const config::Loaded& loaded, const Graph& graph, const Assignment& assignment,
         const amp::Precision& precision)
      : bench_(loaded, ""), graph_(graph), assignment_(assignment), precision_(precision) {
    const amp::Plan full(amp::Precision::fp32());
    for (int i = 0; i < kBatches; ++i) batches_.push_back(bench_.next_batch());
    for (int i = 0; i < kBatches; ++i) full_.push_back(run(full, i, 1.0));
    noise_ = noise(full);
  }

  double noise() const { return noise_; }
  int runs() const { return runs_; }
  void limit(double limit) { limit_ = limit; }

  double error(std::span<const int> low, int batch = 0) {
    std::vector<int> ops(low.begin(), low.end());
    std::ranges::sort(ops);
    const amp::Plan plan =
        runnable(graph_, amp::plan::restricted(graph_, assignment_, ops), precision_, true, bench_.model());
    return difference(run(plan, batch, scale_), batch);
  }

  // Lowers the loss scale, as a run would, until nothing overflows with these ops in 16 bits; the error then.
  double settle_scale(std::span<const int> low) {
    double found = error(low);
    for (; std::isinf(found) && scale_ > 1.0; found = error(low)) scale_ /= 2.0;
    return found;
  }

  bool within(std::span<const int> low) override { return error(low) <= limit_; }

  bool verified(std::span<const int> low) override {
    for (int batch = 0; batch < kBatches; ++batch)
      if (!(error(low, batch) <= limit_)) {
        failed_ = batch;
        return false;
      }
    return true;
  }

  std::vector<double> shares(std::span<const int> low) override {
    const double whole = error(low, failed_);
    std::vector<double> shares;
    for (std::size_t i = 0; i < low.size(); ++i) {
      std::vector<int> others(low.begin(), low.end());
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      shares.push_back(amp::plan::share_of_error(whole, error(others, failed_)));
    }
    return shares;
  }

 private:
  // Loss and gradient of one step that leaves nothing behind.
  Outcome run(const amp::Plan& plan, int batch, double scale) {
    ++runs_;
    nn::Module& model = bench_.model();
    const nn::KeepStatistics keep(model);
    model.clear_gradients();
    const Tensor loss =
        bench_.loss(batches_[static_cast<std::size_t>(batch)], plan, static_cast<std::uint32_t>(batch));
    backward(loss, scale);
    Outcome outcome{.loss = loss.item(), .gradient = {}};
    for (const Parameter& parameter : model.parameters()) {
      const Tensor gradient = parameter.gradient();
      if (!gradient.defined()) {
        outcome.gradient.resize(outcome.gradient.size() +
                                static_cast<std::size_t>(parameter.value().numel()));
        continue;
      }
      for (const float value : gradient.to_vector<float>())
        outcome.gradient.push_back(static_cast<float>(value / scale));
    }
    model.clear_gradients();
    return outcome;
  }

  double difference(const Outcome& outcome, int batch) const {
    const Outcome& full = full_[static_cast<std::size_t>(batch)];
    double apart = 0.0, whole = 0.0;
    for (std::size_t i = 0; i < full.gradient.size(); ++i) {
      const double wide = full.gradient[i], delta = outcome.gradient[i] - wide;
      apart += delta * delta;
      whole += wide * wide;
    }
    const double of_loss = std::abs(outcome.loss - full.loss) / std::max(std::abs(full.loss), 1e-30);
    const double error = std::max(std::sqrt(apart / std::max(whole, 1e-60)), of_loss);
    return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
  }

  double noise(const amp::Plan& full) {
    nn::Module& model = bench_.model();
    std::vector<Tensor> before;
    for (const Parameter& parameter : model.parameters()) before.push_back(parameter.value().clone());
    train::perturb(model, 1, 1);
    const double error = difference(run(full, 0, 1.0), 0);
    std::size_t next = 0;
    for (const Parameter& parameter : model.parameters()) {
      const Tensor& value = parameter.value();
      backend_for(value.device()).copy_bytes(before[next++], value);
      value.storage()->bump_version();
    }
    return error;
  }

  train::Workbench bench_;
  const Graph& graph_;
  const Assignment& assignment_;
  const amp::Precision& precision_;
  std::vector<datasets::Batch> batches_;
  std::vector<Outcome> full_;
  double noise_ = 0.0, limit_ = 0.0;
  double scale_ = precision_.scaler.initial;
  int runs_ = 0, failed_ = 0;
};

}  // namespace

double usual_limit(DType low) { return kUnits * (low == DType::bf16 ? 0x1p-8 : 0x1p-11); }

Accuracy search_types(const config::Loaded& loaded, const Graph& graph, const Assignment& assignment,
                      const amp::Precision& precision, double limit) {
  Shadow shadow(loaded, graph, assignment, precision);
  Accuracy accuracy{.limit = limit, .noise = shadow.noise()};
  require(
      limit >= accuracy.noise, "plan",
      "--limit {:g} is below the error that moving every weight by one unit in the last place makes in FP32, "
      "{:.3g}; take a greater one",
      limit, accuracy.noise);
  shadow.limit(limit);
  const std::vector<int> candidates = amp::plan::lowered(graph, assignment);
  accuracy.error_before = shadow.settle_scale(candidates);
  accuracy.search = amp::plan::search(candidates, shadow);
  accuracy.error = shadow.error(accuracy.search.good);
  accuracy.runs = shadow.runs();
  return accuracy;
}

}  // namespace tandem::planning
