#include "tasks/classification/scores.h"

#include <limits>
#include <string>

#include "autograd/modes.h"
#include "core/error.h"
#include "tasks/class_figures.h"

namespace tandem::tasks {

namespace {

constexpr Index kTop = 5;

}  // namespace

ClassificationScores::ClassificationScores(const ClassificationLoss& loss, bool confusion)
    : loss_of_(loss), by_class_(static_cast<std::size_t>(loss.classes())), keeps_confusion_(confusion) {
  if (confusion || !class_figures().entries().empty()) confusion_ = metrics::ConfusionMatrix(loss.classes());
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
  writer.put_all(labels).put_all(taken_for);
  return std::move(writer).record();
}

void ClassificationScores::take(std::span<const std::byte> record) {
  RecordReader reader(record);
  const auto counts = reader.take<Counts>();
  const auto labels = reader.take_all<std::int64_t>();
  const auto taken_for = reader.take_all<std::int64_t>();
  reader.end();
  samples_ += counts.samples;
  first_ += counts.first;
  among_top_ += counts.among_top;
  loss_ += counts.loss * counts.weight;
  weight_ += counts.weight;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]), taken = static_cast<std::size_t>(taken_for[i]);
    ++by_class_[label].samples;
    ++by_class_[taken].taken;
    by_class_[label].right += label == taken ? 1 : 0;
    if (confusion_.classes > 0) confusion_.add(labels[i], taken_for[i]);
  }
}

Breakdown ClassificationScores::breakdown(const std::vector<std::string>& class_names) const {
  std::vector<double> precision, recall, f1;
  Breakdown result;
  const auto share = [](std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole)
                     : std::numeric_limits<double>::quiet_NaN();
  };
  for (std::size_t c = 0; c < by_class_.size(); ++c) {
    const ClassCounts& counts = by_class_[c];
    result.names.push_back(c < class_names.size() ? class_names[c] : std::to_string(c));
    result.samples.push_back(counts.samples);
    precision.push_back(share(counts.right, counts.taken));
    recall.push_back(share(counts.right, counts.samples));
    f1.push_back(share(2 * counts.right, counts.samples + counts.taken));
  }
  result.figures = {{"precision", precision}, {"recall", recall}, {"f1", f1}};
  return result;
}

Metrics ClassificationScores::metrics() const {
  const double samples = static_cast<double>(std::max<std::int64_t>(samples_, 1));
  Metrics metrics{{"accuracy", static_cast<double>(first_) / samples}};
  if (loss_of_.classes() > kTop) metrics.emplace_back("top5", static_cast<double>(among_top_) / samples);
  metrics.emplace_back("loss", weight_ > 0.0 ? loss_ / weight_ : 0.0);
  add_class_figures(confusion_, metrics);
  return metrics;
}

std::map<std::string, std::string> ClassificationScores::undefined_figures(Index classes) {
  if (classes > kTop) return {};
  return {{"top5", fmt::format("there are {} classes; it needs more than {}", classes, kTop)}};
}

// On ties the lower class comes first. NaN scores rank above the label's, so they never make a sample
// correct.
std::int64_t ClassificationScores::count(const float* scores, std::int64_t label, Counts& counts) const {
  const Index classes = loss_of_.classes();
  const float own = scores[label];
  Index above = 0, best = 0;
  for (Index c = 0; c < classes; ++c) {
    above += c != label && (!(scores[c] <= own) || (scores[c] == own && c < label)) ? 1 : 0;
    if (scores[c] > scores[best]) best = c;
  }
  const bool number = own == own, right = number && above == 0;
  counts.first += right ? 1 : 0;
  counts.among_top += number && above < kTop ? 1 : 0;
  return right || best != label ? best : (label + 1) % classes;
}

}  // namespace tandem::tasks
