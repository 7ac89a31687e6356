#include "tasks/segmentation/scores.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "autograd/modes.h"
#include "core/error.h"
#include "data/dataset.h"
#include "tasks/class_figures.h"

namespace tandem::tasks {

using datasets::kIgnored;

namespace {

// For one pixel; false for NaN scores.
bool predicted(const float* scores, Index count, std::uint8_t& best) {
  if (count == 1) {
    best = scores[0] > 0.0F ? 1 : 0;
    return scores[0] == scores[0];
  }
  Index greatest = 0;
  bool numbers = true;
  for (Index c = 0; c < count; ++c) {
    numbers = numbers && scores[c] == scores[c];
    if (scores[c] > scores[greatest]) greatest = c;
  }
  best = static_cast<std::uint8_t>(greatest);
  return numbers;
}

}  // namespace

Tensor classes_of_scores(const Tensor& scores) {
  const Index count = scores.size(-1);
  const std::vector<float> values = scores.to_vector<float>();
  const Tensor classes = Tensor::empty(scores.shape().without(scores.rank() - 1),
                                       {.dtype = DType::u8, .kind = MemoryKind::data});
  std::uint8_t* const to = classes.data<std::uint8_t>();
  for (Index i = 0; i < classes.numel(); ++i) predicted(values.data() + i * count, count, to[i]);
  return classes;
}

PixelScores::PixelScores(const SegmentationLoss& loss, Index classes) : loss_of_(loss), confusion_(classes) {}

Tensor PixelScores::measure(const Tensor& output, const Tensor& mask, RecordWriter& to) const {
  const NoGrad no_grad;
  const std::vector<float> scores = output.to_vector<float>();
  const std::vector<std::uint8_t> truth = mask.to_vector<std::uint8_t>();
  const Tensor classes = Tensor::empty(mask.shape(), {.dtype = DType::u8, .kind = MemoryKind::data});
  std::uint8_t* const best = classes.data<std::uint8_t>();
  const Index each = loss_of_.scores();
  metrics::ConfusionMatrix confusion(confusion_.classes);
  std::int64_t counted = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const bool numbers = predicted(scores.data() + static_cast<Index>(i) * each, each, best[i]);
    if (truth[i] == kIgnored) continue;
    ++counted;
    const Index other = (truth[i] + 1) % confusion.classes;
    confusion.add(truth[i], numbers ? best[i] : other);
  }
  to.put(Loss{.mean = counted > 0 ? loss_of_(output, mask).item() : 0.0,
              .pixels = static_cast<double>(counted)});
  to.put_all(confusion.counts);
  if (confusion.classes == 2) to.put(probabilities_of(scores, truth));
  return classes;
}

void PixelScores::take(RecordReader& from) {
  const auto loss = from.take<Loss>();
  const auto counts = from.take_all<std::int64_t>();
  const auto probabilities = confusion_.classes == 2 ? from.take<Probabilities>() : Probabilities{};
  ensure(counts.size() == confusion_.counts.size(), "record", "{} counts of {} classes", counts.size(),
         confusion_.classes);
  for (std::size_t i = 0; i < counts.size(); ++i) confusion_.counts[i] += counts[i];
  for (std::size_t truth = 0; truth < probabilities.size(); ++truth)
    std::ranges::transform(probabilities_[truth], probabilities[truth], probabilities_[truth].begin(),
                           std::plus());
  if (loss.pixels > 0) loss_ += loss.mean * loss.pixels;
  weight_ += loss.pixels;
}

Tensor PixelScores::add(const Tensor& output, const Tensor& mask) {
  RecordWriter writer;
  const Tensor classes = measure(output, mask, writer);
  const Record record = std::move(writer).record();
  RecordReader reader(record);
  take(reader);
  return classes;
}

PixelScores::Probabilities PixelScores::probabilities_of(const std::vector<float>& scores,
                                                         const std::vector<std::uint8_t>& truth) const {
  Probabilities pixels{};
  const auto each = static_cast<std::size_t>(loss_of_.scores());
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (truth[i] == kIgnored) continue;
    const float* pixel = scores.data() + i * each;
    const double z = each == 1 ? pixel[0] : static_cast<double>(pixel[1]) - pixel[0];
    const double probability = z == z ? 1.0 / (1.0 + std::exp(-z)) : 0.0;
    const int step = std::min(static_cast<int>(probability * kThresholds), kThresholds - 1);
    ++pixels[truth[i]][static_cast<std::size_t>(step)];
  }
  return pixels;
}

std::vector<double> PixelScores::iou_by_threshold() const {
  std::vector<double> result;
  if (confusion_.classes != 2) return result;
  std::int64_t positives = 0, right = 0, wrong = 0;
  for (const std::int64_t pixels : probabilities_[1]) positives += pixels;
  for (int i = kThresholds - 1; i >= 1; --i) {
    right += probabilities_[1][static_cast<std::size_t>(i)];
    wrong += probabilities_[0][static_cast<std::size_t>(i)];
    const std::int64_t either = positives + wrong;
    result.push_back(either > 0 ? static_cast<double>(right) / static_cast<double>(either) : 0.0);
  }
  std::ranges::reverse(result);
  return result;
}

Metrics PixelScores::metrics() const {
  const std::vector<metrics::Overlap> overlaps = metrics::overlaps_of(confusion_);
  const auto right = static_cast<double>(confusion_.right());
  Metrics metrics{{"miou", metrics::mean_iou(overlaps)},
                  {"dice", metrics::mean_dice(overlaps)},
                  {"pixel_accuracy", weight_ > 0.0 ? right / weight_ : 0.0},
                  {"loss", weight_ > 0.0 ? loss_ / weight_ : 0.0}};
  add_class_figures(confusion_, metrics);
  return metrics;
}

}  // namespace tandem::tasks
