#include "studies/plan/accuracy.h"

#include <algorithm>
#include <cmath>

#include "amp/plan/rules.h"
#include "core/error.h"
#include "studies/plan/measure.h"
#include "studies/plan/shadow.h"

namespace tandem::planning {

using amp::plan::Assignment;
using amp::plan::Graph;

namespace {

constexpr int kBatches = 3;  // one for the search; all for verification
constexpr double kUnits = 16.0;

class Shadow final : public amp::plan::Oracle {
 public:
  Shadow(const config::Loaded& loaded, const Graph& graph, const Assignment& assignment,
         const amp::Precision& precision, std::size_t phase)
      : phase_(phase),
        step_(loaded, {}, kBatches, phase),
        graph_(graph),
        assignment_(assignment),
        precision_(precision),
        noise_(step_.noise()) {}

  double noise() const { return noise_; }
  int runs() const { return step_.runs(); }
  void limit(double limit) { limit_ = limit; }

  double error(std::span<const int> low, int batch = 0) {
    std::vector<int> ops(low.begin(), low.end());
    std::ranges::sort(ops);
    const amp::ResolvedPrecision resolved = runnable(graph_, amp::plan::restricted(graph_, assignment_, ops),
                                                     precision_, true, step_.model(), phase_);
    return step_.error(resolved, batch, scale_);
  }

  // Lowers the loss scale until these ops do not overflow in 16 bits; returns the error.
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
  const std::size_t phase_;
  ShadowStep step_;
  const Graph& graph_;
  const Assignment& assignment_;
  const amp::Precision& precision_;
  const double noise_;
  double limit_ = 0.0;
  double scale_ = precision_.scaler.initial;
  int failed_ = 0;
};

}  // namespace

double usual_limit(DType low) { return kUnits * (low == DType::bf16 ? 0x1p-8 : 0x1p-11); }

Accuracy search_types(const config::Loaded& loaded, const Graph& graph, const Assignment& assignment,
                      const amp::Precision& precision, double limit, std::size_t phase) {
  Shadow shadow(loaded, graph, assignment, precision, phase);
  Accuracy accuracy{.limit = limit, .noise = shadow.noise()};
  require(limit >= accuracy.noise, "plan",
          "--limit {:g} is below the FP32 error of moving every weight by one unit in the last place, "
          "{:.3g}; give a greater one",
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
