#include "tasks/classification/scores.h"

#include <fmt/core.h>

#include "autograd/modes.h"
#include "core/error.h"

namespace tandem::tasks {

namespace {

constexpr Index kTop = 5;
constexpr Index kMaxConfusion = 4096;

}  // namespace

std::string ConfusionMatrix::csv(const std::vector<std::string>& class_names) const {
  const auto name = [&](Index c) {
    if (static_cast<std::size_t>(c) >= class_names.size()) return std::to_string(c);
    std::string quoted;
    for (const char letter : class_names[static_cast<std::size_t>(c)])
      quoted += letter == '"' ? "\"\"" : std::string(1, letter);
    return quoted.find_first_of(",\"\n") == std::string::npos ? quoted : fmt::format("\"{}\"", quoted);
  };
  std::string text = "true\\predicted";
  for (Index c = 0; c < classes; ++c) text += fmt::format(",{}", name(c));
  for (Index row = 0; row < classes; ++row) {
    text += fmt::format("\n{}", name(row));
    for (Index c = 0; c < classes; ++c)
      text += fmt::format(",{}", counts[static_cast<std::size_t>(row * classes + c)]);
  }
  return text + "\n";
}

ClassificationScores::ClassificationScores(const ClassificationLoss& loss, bool confusion) : loss_of_(loss) {
  if (!confusion) return;
  require(loss.classes() <= kMaxConfusion, "", "a confusion matrix of {} classes is too large (at most {})",
          loss.classes(), kMaxConfusion);
  confusion_.classes = loss.classes();
  confusion_.counts.resize(static_cast<std::size_t>(loss.classes() * loss.classes()));
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
  if (confusion_.classes > 0) ++confusion_.counts[static_cast<std::size_t>(label * classes + best)];
}

}  // namespace tandem::tasks
