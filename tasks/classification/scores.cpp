#include "tasks/classification/scores.h"

#include <fmt/core.h>

#include "autograd/modes.h"
#include "core/error.h"

namespace tandem::tasks {

namespace {

constexpr Index kTop = 5;

}  // namespace

ClassificationScores::ClassificationScores(const ClassificationLoss& loss, bool confusion) : loss_of_(loss) {
  if (!confusion) return;
  confusion_ = ConfusionMatrix(loss.classes());
}

void ClassificationScores::add(const Tensor& output, const datasets::Batch& batch) {
  const NoGrad no_grad;
  const std::vector<float> logits = output.to_vector<float>();
  const std::vector<std::int64_t> labels = batch["label"].to_vector<std::int64_t>();
  double weight = 0.0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    count(logits.data() + static_cast<Index>(i) * loss_of_.classes(), labels[i]);
    weight += loss_of_.weight_of(labels[i]);
  }
  samples_ += static_cast<std::int64_t>(labels.size());
  loss_ += loss_of_(output, batch).item() * weight;
  weight_ += weight;
}

Metrics ClassificationScores::metrics() const {
  const double samples = static_cast<double>(std::max<std::int64_t>(samples_, 1));
  Metrics metrics{{"accuracy", static_cast<double>(first_) / samples}};
  if (loss_of_.classes() > kTop) metrics.emplace_back("top5", static_cast<double>(among_top_) / samples);
  metrics.emplace_back("loss", weight_ > 0.0 ? loss_ / weight_ : 0.0);
  return metrics;
}

// Of equal scores the lower class comes first. A score that is no number ranks above the label's, so that
// it never makes a sample count as right.
void ClassificationScores::count(const float* scores, std::int64_t label) {
  const Index classes = loss_of_.classes();
  const float own = scores[label];
  Index above = 0, best = 0;
  for (Index c = 0; c < classes; ++c) {
    above += c != label && (!(scores[c] <= own) || (scores[c] == own && c < label)) ? 1 : 0;
    if (scores[c] > scores[best]) best = c;
  }
  const bool number = own == own;
  first_ += number && above == 0 ? 1 : 0;
  among_top_ += number && above < kTop ? 1 : 0;
  if (confusion_.classes > 0) confusion_.add(label, best);
}

}  // namespace tandem::tasks
