#include "tasks/classification/loss.h"

#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "core/error.h"

namespace tandem::tasks {

Tensor ClassificationLoss::operator()(const Tensor& output, const datasets::Batch& batch) const {
  require(output.rank() == 2 && output.size(1) == classes_, "model",
          "a classifier must return [batch, {}] scores, got {}", classes_, to_string(output.shape()));
  return compute(output, batch["label"], batch.find("soft_label"));
}

namespace {

// Weight of a part of a step: of a micro-batch, a shard, a rank.
enum class BatchCounts : std::uint8_t { samples, class_weights };

struct CrossEntropyOptions {
  double label_smoothing = 0.0;
  std::optional<std::vector<double>> class_weights{};
  BatchCounts batch_weight = BatchCounts::samples;
};

class CrossEntropyLoss final : public ClassificationLoss {
 public:
  CrossEntropyLoss(const CrossEntropyOptions& options, Index classes)
      : ClassificationLoss(classes), options_(options) {
    const auto& given = options.class_weights;
    if (!given) return;
    require(static_cast<Index>(given->size()) == classes, "",
            "loss.class_weights: has {} weights, the model has {} classes", given->size(), classes);
    class_weights_ = Tensor::from(std::vector<float>(given->begin(), given->end()), {classes});
  }

  datasets::BatchWeight batch_weight() const override {
    if (options_.batch_weight != BatchCounts::class_weights) return {};
    return [weights = *options_.class_weights](const Tensor& labels) {
      double sum = 0.0;
      for (Index i = 0; i < labels.numel(); ++i)
        sum += weights[static_cast<std::size_t>(labels.data<std::int64_t>()[i])];
      return sum;
    };
  }

  double weight_of(std::int64_t label) const override {
    return options_.class_weights ? (*options_.class_weights)[static_cast<std::size_t>(label)] : 1.0;
  }

 private:
  Tensor compute(const Tensor& output, const Tensor& labels, const Tensor& soft) const override {
    if (class_weights_.defined()) class_weights_ = class_weights_.to(output.device());
    return cross_entropy(
        output, soft.defined() ? soft : labels,
        {.label_smoothing = options_.label_smoothing, .ignore_index = {}, .class_weights = class_weights_});
  }

  CrossEntropyOptions options_;
  mutable Tensor class_weights_;  // [classes] or absent; on the device of the last scores
};

template <class Options>
class ElementwiseLoss final : public ClassificationLoss {
 public:
  using Formula = Tensor (*)(const Options& options, const Tensor& output, const Tensor& targets);
  ElementwiseLoss(const Options& options, Formula formula, Index classes)
      : ClassificationLoss(classes), options_(options), formula_(formula) {}

 private:
  Tensor compute(const Tensor& output, const Tensor& labels, const Tensor& soft) const override {
    return formula_(options_, output, soft.defined() ? soft : one_hot(labels, classes()));
  }

  Options options_;
  Formula formula_;
};

template <class Options>
ClassificationLosses::Entry elementwise_entry(std::string name, std::string help, options::Schema keys,
                                              typename ElementwiseLoss<Options>::Formula formula) {
  return ClassificationLosses::entry<Options>(
      std::move(name), std::move(help), std::move(keys),
      [formula](const Options& options, Index classes) -> std::unique_ptr<ClassificationLoss> {
        return std::make_unique<ElementwiseLoss<Options>>(options, formula, classes);
      });
}

struct FocalOptions {
  double alpha = 0.25, gamma = 2.0;
};
struct BinaryOptions {};
struct SquaredOptions {};

}  // namespace
}  // namespace tandem::tasks

template <>
struct tandem::options::EnumNames<tandem::tasks::BatchCounts> {
  static constexpr std::array values{"samples", "class_weights"};
};

namespace tandem::tasks {
namespace {

ClassificationLosses::Entry cross_entropy_entry() {
  return ClassificationLosses::entry<CrossEntropyOptions>(
      "cross_entropy", "cross-entropy of the softmax with classes or class probabilities",
      options::Describe<CrossEntropyOptions>()
          .key("label_smoothing", &CrossEntropyOptions::label_smoothing,
               "share of the target distributed over all classes", {.min = 0.0, .max = 1.0, .open_max = true})
          .key("class_weights", &CrossEntropyOptions::class_weights,
               "one weight per class; in the class order of init_from's weights if it differs",
               {.min = 0.0, .max = 1e6})
          .key("batch_weight", &CrossEntropyOptions::batch_weight,
               "weight of each micro-batch, shard and rank in a step of several: its samples, or the sum of "
               "their class weights, as in the mean over one batch")
          .rule("batch_weight", "needs loss.class_weights",
                [](const CrossEntropyOptions& o) {
                  return o.batch_weight == BatchCounts::samples || o.class_weights.has_value();
                }),
      [](const CrossEntropyOptions& options, Index classes) -> std::unique_ptr<ClassificationLoss> {
        return std::make_unique<CrossEntropyLoss>(options, classes);
      });
}

}  // namespace

ClassificationLosses& classification_losses() {
  static ClassificationLosses family(
      {.what = "loss", .help = "the loss of a batch", .fallback = "cross_entropy"},
      {cross_entropy_entry(),
       elementwise_entry<FocalOptions>(
           "focal", "focal loss: binary cross-entropy that down-weights easy samples (Lin et al. 2017)",
           options::Describe<FocalOptions>()
               .key("alpha", &FocalOptions::alpha, "weight of the target class; -1: none",
                    {.min = -1.0, .max = 1.0})
               .key("gamma", &FocalOptions::gamma, "exponent that down-weights easy samples",
                    {.min = 0.0, .max = 100.0}),
           [](const FocalOptions& o, const Tensor& output, const Tensor& targets) {
             return focal_loss(output, targets, o.alpha, o.gamma);
           }),
       elementwise_entry<BinaryOptions>(
           "bce_with_logits", "binary cross-entropy of each class", options::Describe<BinaryOptions>(),
           [](const BinaryOptions&, const Tensor& output, const Tensor& targets) {
             return bce_with_logits(output, targets);
           }),
       elementwise_entry<SquaredOptions>("mse", "mean squared error of the scores against 0 and 1",
                                         options::Describe<SquaredOptions>(),
                                         [](const SquaredOptions&, const Tensor& output,
                                            const Tensor& targets) { return mse_loss(output, targets); })});
  return family;
}

}  // namespace tandem::tasks
