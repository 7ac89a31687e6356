#include "tasks/classification.h"

#include <fmt/core.h>

#include "autograd/modes.h"
#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "core/error.h"

namespace tandem::tasks {

namespace {

constexpr Index kTop = 5;
constexpr Index kMaxConfusion = 4096;

class ClassificationEvaluation final : public Evaluation {
 public:
  ClassificationEvaluation(const Classification& task, bool confusion) : task_(task) {
    if (!confusion) return;
    require(task.classes() <= kMaxConfusion, "", "a confusion matrix of {} classes is too large (at most {})",
            task.classes(), kMaxConfusion);
    confusion_.classes = task.classes();
    confusion_.counts.resize(static_cast<std::size_t>(task.classes() * task.classes()));
  }

  void add(const Tensor& output, const datasets::Batch& batch) override {
    const NoGrad no_grad;
    const std::vector<float> logits = output.to_vector<float>();
    const std::vector<std::int64_t> labels = batch["label"].to_vector<std::int64_t>();
    double weight = 0.0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      count(logits.data() + static_cast<Index>(i) * task_.classes(), labels[i]);
      weight += task_.weight_of(labels[i]);
    }
    samples_ += static_cast<std::int64_t>(labels.size());
    loss_ += task_.loss(output, batch).item() * weight;
    weight_ += weight;
  }

  runs::Metrics metrics() const override {
    const double samples = static_cast<double>(std::max<std::int64_t>(samples_, 1));
    runs::Metrics metrics{{"accuracy", static_cast<double>(first_) / samples}};
    if (task_.classes() > kTop) metrics.emplace_back("top5", static_cast<double>(among_top_) / samples);
    metrics.emplace_back("loss", weight_ > 0.0 ? loss_ / weight_ : 0.0);
    return metrics;
  }

  const ConfusionMatrix* confusion() const override { return confusion_.classes > 0 ? &confusion_ : nullptr; }

 private:
  // Of equal scores the lower class comes first. A score that is no number ranks above the label's, so that
  // it never makes a sample count as right.
  void count(const float* scores, std::int64_t label) {
    const Index classes = task_.classes();
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

  const Classification& task_;
  std::int64_t samples_ = 0, first_ = 0, among_top_ = 0;
  double loss_ = 0.0, weight_ = 0.0;
  ConfusionMatrix confusion_;
};

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

Classification::Classification(const config::LossConfig& loss, Index classes)
    : config_(loss), classes_(classes) {
  if (!loss.class_weights) return;
  require(static_cast<Index>(loss.class_weights->size()) == classes, "",
          "loss.class_weights: has {} weights, the model has {} classes", loss.class_weights->size(),
          classes);
  const std::vector<float> weights(loss.class_weights->begin(), loss.class_weights->end());
  class_weights_ = Tensor::from(weights, {classes});
}

double Classification::weight_of(std::int64_t label) const {
  return config_.class_weights ? (*config_.class_weights)[static_cast<std::size_t>(label)] : 1.0;
}

Tensor Classification::loss(const Tensor& output, const datasets::Batch& batch) const {
  require(output.rank() == 2 && output.size(1) == classes_, "model",
          "a classifier gives [batch, {}] scores, this one gives {}", classes_, to_string(output.shape()));
  if (class_weights_.defined()) class_weights_ = class_weights_.to(output.device());
  const Tensor& soft = batch.find("soft_label");
  if (config_.name == "cross_entropy")
    return cross_entropy(
        output, soft.defined() ? soft : batch["label"],
        {.label_smoothing = config_.label_smoothing, .ignore_index = {}, .class_weights = class_weights_});
  const Tensor targets = soft.defined() ? soft : one_hot(batch["label"], classes_);
  if (config_.name == "focal") return focal_loss(output, targets, config_.alpha, config_.gamma);
  if (config_.name == "bce_with_logits") return bce_with_logits(output, targets);
  return mse_loss(output, targets);
}

datasets::BatchWeight Classification::batch_weight() const {
  if (!config_.by_class_weights()) return {};
  return [weights = *config_.class_weights](std::span<const std::int64_t> labels) {
    double sum = 0.0;
    for (const std::int64_t label : labels) sum += weights[static_cast<std::size_t>(label)];
    return sum;
  };
}

std::unique_ptr<Evaluation> Classification::evaluation(bool confusion) const {
  return std::make_unique<ClassificationEvaluation>(*this, confusion);
}

std::unique_ptr<Task> make_task(const config::Config& config, const Shape& output) {
  require(output.rank() == 1, "model",
          "a classifier gives one score a class for each sample, this one gives {}", to_string(output));
  return std::make_unique<Classification>(config.loss, output[0]);
}

}  // namespace tandem::tasks
