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

Record ClassificationScores::measure(const Tensor& output, const datasets::Batch& batch) const {
  const NoGrad no_grad;
  const std::vector<float> logits = output.to_vector<float>();
  const std::vector<std::int64_t> labels = batch["label"].to_vector<std::int64_t>();
  Counts counts{.samples = static_cast<std::int64_t>(labels.size())};
  std::vector<std::int64_t> taken_for;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const float* const scores = logits.data() + static_cast<Index>(i) * loss_of_.classes();
    taken_for.push_back(count(scores, labels[i], counts));
    counts.weight += loss_of_.weight_of(labels[i]);
  }
  counts.loss = loss_of_(output, batch).item();
  RecordWriter writer;
  writer.put(counts);
  if (confusion()) writer.put_all(labels).put_all(taken_for);
  return std::move(writer).record();
}

void ClassificationScores::take(std::span<const std::byte> record) {
  RecordReader reader(record);
  const auto counts = reader.take<Counts>();
  std::vector<std::int64_t> labels, taken_for;
  if (confusion()) {
    labels = reader.take_all<std::int64_t>();
    taken_for = reader.take_all<std::int64_t>();
  }
  reader.end();
  samples_ += counts.samples;
  first_ += counts.first;
  among_top_ += counts.among_top;
  loss_ += counts.loss * counts.weight;
  weight_ += counts.weight;
  for (std::size_t i = 0; i < labels.size(); ++i) confusion_.add(labels[i], taken_for[i]);
}

Metrics ClassificationScores::metrics() const {
  const double samples = static_cast<double>(std::max<std::int64_t>(samples_, 1));
  Metrics metrics{{"accuracy", static_cast<double>(first_) / samples}};
  if (loss_of_.classes() > kTop) metrics.emplace_back("top5", static_cast<double>(among_top_) / samples);
  metrics.emplace_back("loss", weight_ > 0.0 ? loss_ / weight_ : 0.0);
  return metrics;
}

std::map<std::string, std::string> ClassificationScores::undefined_figures(Index classes) {
  if (classes > kTop) return {};
  return {{"top5", fmt::format("there are {} classes, and it is of more than {}", classes, kTop)}};
}

// Of equal scores the lower class comes first. A score that is no number ranks above the label's, so that
// it never makes a sample count as right.
std::int64_t ClassificationScores::count(const float* scores, std::int64_t label, Counts& counts) const {
  const Index classes = loss_of_.classes();
  const float own = scores[label];
  Index above = 0, best = 0;
  for (Index c = 0; c < classes; ++c) {
    above += c != label && (!(scores[c] <= own) || (scores[c] == own && c < label)) ? 1 : 0;
    if (scores[c] > scores[best]) best = c;
  }
  const bool number = own == own;
  counts.first += number && above == 0 ? 1 : 0;
  counts.among_top += number && above < kTop ? 1 : 0;
  return best;
}

}  // namespace tandem::tasks
