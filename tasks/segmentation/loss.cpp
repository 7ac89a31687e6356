#include "tasks/segmentation/loss.h"

#include <optional>
#include <span>
#include <vector>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "data/dataset.h"

namespace tandem::tasks {

using datasets::kIgnored;

Tensor SegmentationLoss::operator()(const Tensor& output, const Tensor& mask) const {
  require(output.rank() == 4 && output.shape().without(3) == mask.shape() && output.size(3) == scores_,
          "model", "masks of {} need {} scores per pixel, this model returns {}", to_string(mask.shape()),
          scores_, to_string(output.shape()));
  return compute(output, mask);
}

namespace {

// Weight of a part of a step: of a micro-batch, a shard, a rank.
enum class PixelBatchCounts : std::uint8_t { samples, pixels };

// Common options: weights of the terms, and the form of Dice.
struct TermOptions {
  double dice = 1.0;
  double epsilon = 1e-6;
  bool squared = false;
  PixelBatchCounts batch_weight = PixelBatchCounts::samples;

  DiceLossOptions dice_options() const {
    return {.epsilon = epsilon, .squared = squared, .ignore_index = kIgnored};
  }
  bool by_pixels() const { return batch_weight == PixelBatchCounts::pixels; }
  static const options::Schema& schema();
};

void add_term(Tensor& sum, double weight, const Tensor& term) {
  const Tensor weighted = weight == 1.0 ? term : mul(term, weight);
  sum = sum.defined() ? add(sum, weighted) : weighted;
}

struct CrossEntropyDiceOptions {
  double cross_entropy = 1.0;
  TermOptions terms;
  std::optional<std::vector<double>> class_weights{};
};

class CrossEntropyDice final : public SegmentationLoss {
 public:
  CrossEntropyDice(const CrossEntropyDiceOptions& options, Index classes)
      : SegmentationLoss(classes, options.terms.by_pixels()), options_(options) {
    require(classes >= 2, "loss", "cross_entropy_dice needs at least two classes, got {}", classes);
    const auto& given = options.class_weights;
    if (!given) return;
    require(static_cast<Index>(given->size()) == classes, "",
            "loss.class_weights: has {} weights, the data has {} classes", given->size(), classes);
    class_weights_ = Tensor::from(std::vector<float>(given->begin(), given->end()), {classes});
  }

  // By the weights of their classes.
  datasets::BatchWeight batch_weight() const override {
    if (!options_.class_weights) return {};
    return [weights = *options_.class_weights](const Tensor& mask) {
      double sum = 0.0;
      for (const auto pixel : std::span(mask.data<std::uint8_t>(), static_cast<std::size_t>(mask.numel())))
        if (pixel != kIgnored) sum += weights.at(pixel);
      return sum;
    };
  }

 private:
  Tensor compute(const Tensor& output, const Tensor& mask) const override {
    if (class_weights_.defined()) class_weights_ = class_weights_.to(output.device());
    Tensor sum;
    if (options_.cross_entropy > 0.0)
      add_term(sum, options_.cross_entropy,
               cross_entropy(output, mask, {.ignore_index = kIgnored, .class_weights = class_weights_}));
    if (options_.terms.dice > 0.0)
      add_term(sum, options_.terms.dice, dice_loss(output, mask, options_.terms.dice_options()));
    return sum;
  }

  CrossEntropyDiceOptions options_;
  mutable Tensor class_weights_;  // [classes] or absent; on the device of the last scores
};

struct BceDiceOptions {
  double bce = 1.0, bce_until = 0.0;
  TermOptions terms;
};

class BceDice final : public SegmentationLoss {
 public:
  BceDice(const BceDiceOptions& options, Index classes)
      : SegmentationLoss(1, options.terms.by_pixels()), options_(options) {
    require(classes == 2, "loss", "bce_dice needs two classes, the data has {}", classes);
  }

 private:
  Tensor compute(const Tensor& output, const Tensor& mask) const override {
    Tensor dice, sum;
    const auto& terms = options_.terms;
    if (terms.dice > 0.0 || options_.bce_until > 0.0)
      dice = binary_dice_loss(output, mask, terms.dice_options());
    if (terms.dice > 0.0) add_term(sum, terms.dice, dice);
    if (options_.bce == 0.0) return sum;
    // The binary cross entropy of z is the cross entropy of scores (0, z), which supports ignored pixels.
    const Tensor both = concat({Tensor::zeros(output.shape(), output.options()), output}, -1);
    Tensor bce = cross_entropy(both, mask, {.ignore_index = kIgnored});
    if (options_.bce_until > 0.0) {
      const auto scalar = [&](double value) { return Tensor::scalar(value, bce.options()); };
      bce = where(less(dice, scalar(options_.bce_until)), scalar(0.0), bce);
    }
    add_term(sum, options_.bce, bce);
    return sum;
  }

  BceDiceOptions options_;
};

}  // namespace
}  // namespace tandem::tasks

template <>
struct tandem::options::EnumNames<tandem::tasks::PixelBatchCounts> {
  static constexpr std::array values{"samples", "pixels"};
};

namespace tandem::tasks {

const options::Schema& TermOptions::schema() {
  static const options::Schema schema =
      options::Describe<TermOptions>()
          .key("dice", &TermOptions::dice, "weight of 1 - Dice, the mean over classes; 0: off",
               {.min = 0.0, .max = 1e6})
          .key("epsilon", &TermOptions::epsilon,
               "added to numerator and denominator of Dice; a class neither present nor predicted counts 1",
               {.min = 0.0, .max = 1e6})
          .key("squared", &TermOptions::squared,
               "Dice's denominator sums squares (Milletari, Navab and Ahmadi 2016)")
          .key("batch_weight", &TermOptions::batch_weight,
               "weight of each micro-batch, shard and rank in a step of several: its samples, or its pixels "
               "that are not ignored, as in the cross entropy of one batch. Dice of a whole batch always "
               "differs from its mean over parts");
  return schema;
}

namespace {

SegmentationLosses::Entry cross_entropy_dice_entry() {
  using Options = CrossEntropyDiceOptions;
  return SegmentationLosses::entry<Options>(
      "cross_entropy_dice", "weighted sum of softmax cross entropy and Dice loss",
      options::Describe<Options>()
          .key("cross_entropy", &Options::cross_entropy,
               "weight of the mean cross entropy over pixels; 0: off", {.min = 0.0, .max = 1e6})
          .include(&Options::terms)
          .key("class_weights", &Options::class_weights,
               "one weight per class in the cross entropy; in the class order of init_from's weights if it "
               "differs",
               {.min = 0.0, .max = 1e6})
          .rule("dice", "and loss.cross_entropy must not both be 0",
                [](const Options& o) { return o.cross_entropy > 0.0 || o.terms.dice > 0.0; }),
      [](const Options& options, Index classes) -> std::unique_ptr<SegmentationLoss> {
        return std::make_unique<CrossEntropyDice>(options, classes);
      });
}

SegmentationLosses::Entry bce_dice_entry() {
  using Options = BceDiceOptions;
  return SegmentationLosses::entry<Options>(
      "bce_dice", "two classes: binary cross entropy of one score and Dice loss of the second class",
      options::Describe<Options>()
          .key("bce", &Options::bce, "weight of the mean binary cross entropy over pixels; 0: off",
               {.min = 0.0, .max = 1e6})
          .key("bce_until", &Options::bce_until,
               "drop binary cross entropy for a batch whose 1 - Dice is below this; 0: never",
               {.min = 0.0, .max = 1.0})
          .include(&Options::terms)
          .rule("dice", "and loss.bce must not both be 0",
                [](const Options& o) { return o.bce > 0.0 || o.terms.dice > 0.0; })
          .rule("bce_until", "leaves no loss without loss.dice",
                [](const Options& o) { return o.bce_until == 0.0 || o.terms.dice > 0.0; }),
      [](const Options& options, Index classes) -> std::unique_ptr<SegmentationLoss> {
        return std::make_unique<BceDice>(options, classes);
      });
}

}  // namespace

SegmentationLosses& segmentation_losses() {
  static SegmentationLosses family(
      {.what = "loss", .help = "the loss of a batch", .fallback = "cross_entropy_dice"},
      {cross_entropy_dice_entry(), bce_dice_entry()});
  return family;
}

}  // namespace tandem::tasks
