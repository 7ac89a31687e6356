// `tandem` with parts from outside its tree: a data set, a transform, a layer, a loss and a metric for
// images; a corpus and a model for texts.
//   own_parts train own_images.json
//   own_parts train own_texts.json
#include <tandem/cli/commands.h>
#include <tandem/data/text/labelled_registry.h>
#include <tandem/models/layer_types.h>
#include <tandem/models/registry_keys.h>
#include <tandem/models/text_encoder.h>
#include <tandem/tandem.h>
#include <tandem/tasks/class_figures.h>
#include <tandem/tasks/classification/loss.h>

#include "mish.h"

namespace consumer {

using namespace tandem;
using options::Describe;

struct NoOptions {};

// ---- A data set: stripes, horizontal (class 0) or vertical (class 1), on noise

struct StripesOptions {
  Index side = 12;
};

std::shared_ptr<datasets::InMemoryDataset> stripes(Index side, Index count, std::uint32_t split) {
  RandomStream random({.seed = 1, .purpose = RandomPurpose::synthetic_data, .call = split});
  std::vector<std::uint8_t> pixels;
  std::vector<std::int64_t> labels;
  for (Index i = 0; i < count; ++i) {
    labels.push_back(i % 2);
    const Index shift = random.below(3);
    for (Index at = 0; at < side * side; ++at) {
      const Index along = (i % 2 == 0 ? at / side : at % side) + shift;
      pixels.push_back(static_cast<std::uint8_t>((along % 3 == 0 ? 120 : 0) + random.below(120)));
    }
  }
  return std::make_shared<datasets::InMemoryDataset>(Tensor::from(pixels, {count, side, side, 1}),
                                                     Tensor::from(labels, {count}),
                                                     datasets::DatasetInfo{.name = "stripes"}, "stripes");
}

datasets::LabelledRegistry::Entry stripes_entry() {
  return datasets::LabelledRegistry::entry<StripesOptions>(
      "stripes", "stripes on noise",
      Describe<StripesOptions>().key("side", &StripesOptions::side, "of an image in pixels", {.min = 3}),
      [](const StripesOptions& o, const datasets::SetOptions&) {
        return datasets::Splits{
            .train = stripes(o.side, 200, 0), .test = stripes(o.side, 50, 1), .validation = {}};
      });
}

// ---- A transform: the negative of an image

struct NegativeOptions {
  double probability = 0.5;
};

class Negative final : public datasets::Transform {
 public:
  explicit Negative(const NegativeOptions& options) : probability_(static_cast<float>(options.probability)) {}
  void apply(datasets::ImageWork& image, RandomStream& random) const override {
    if (random.uniform(0.0F, 1.0F) >= probability_) return;
    for (float& pixel : image.pixels()) pixel = image.unit() - pixel;
  }

 private:
  float probability_;
};

datasets::TransformInfo negative_entry() {
  return datasets::transform<Negative>(
      "negative", "the negative of an image",
      Describe<NegativeOptions>().key("probability", &NegativeOptions::probability, "of a negative",
                                      {.min = 0.0, .max = 1.0}),
      true);
}

// ---- A layer: the activation of mish.h

struct MishLayer final : nn::Module {
  Tensor forward(const Tensor& x) override { return mish(x); }
};

models::LayerType mish_entry() {
  return models::layer(
      "mish", "x·tanh(softplus(x))", Describe<NoOptions>(),
      [](const NoOptions&, std::span<const Shape>) { return std::make_shared<MishLayer>(); });
}

// ---- A loss: the Brier score

class Brier final : public tasks::ClassificationLoss {
 public:
  using ClassificationLoss::ClassificationLoss;

 private:
  Tensor compute(const Tensor& output, const Tensor& labels, const Tensor& soft) const override {
    return mse_loss(softmax(output), soft.defined() ? soft : one_hot(labels, classes()));
  }
};

tasks::ClassificationLosses::Entry brier_entry() {
  return tasks::ClassificationLosses::entry<NoOptions>(
      "brier", "squared distance of the probabilities from 0 and 1", Describe<NoOptions>(),
      [](const NoOptions&, Index classes) { return std::make_unique<Brier>(classes); });
}

// ---- A metric: the mean recall of the classes

double balanced_accuracy(const metrics::ConfusionMatrix& confusion) {
  double recalls = 0.0;
  Index present = 0;
  for (Index c = 0; c < confusion.classes; ++c) {
    std::int64_t samples = 0;
    for (Index other = 0; other < confusion.classes; ++other) samples += confusion.at(c, other);
    if (samples == 0) continue;
    recalls += static_cast<double>(confusion.at(c, c)) / static_cast<double>(samples);
    ++present;
  }
  return present > 0 ? recalls / static_cast<double>(present) : 0.0;
}

// ---- A corpus: texts of "a" or of "b"

datasets::LabelledCorpusRegistry::Entry letters_entry() {
  return datasets::LabelledCorpusRegistry::entry<NoOptions>(
      "letters", "texts that are told apart by one word", Describe<NoOptions>(), [](const NoOptions&) {
        const auto read = [](const datasets::LabelledCorpusOptions& options) {
          datasets::LabelledParts parts{.classes = {"a", "b"}, .train = {}, .validation = {}, .test = {}};
          for (int i = 0; i < 100; ++i) {
            parts.train.push_back(i % 2 == 0 ? datasets::LabelledText{"a word", 0}
                                             : datasets::LabelledText{"and then b", 1});
            if (i < 10) parts.test.push_back(parts.train.back());
          }
          return datasets::make_labelled_corpus(parts, options, "letters");
        };
        return datasets::LabelledReader{read, {"a", "b"}};
      });
}

// ---- A model: the mean of the words' vectors

class Bag final : public models::TextEncoder {
 public:
  Bag(Index words, Index classes, Index width)
      : classes_(classes),
        embedding_(add_child("embedding", std::make_shared<nn::Embedding>(words, width))),
        head_(add_child("head", std::make_shared<nn::Linear>(width, classes))) {}
  Tensor encode(const Tensor& words, const Tensor& lengths) override {
    const Index steps = words.size(0), texts = words.size(1);
    const Tensor weights =
        masked_softmax(Tensor::zeros({texts, steps}, {.device = words.device()}), {.lengths = lengths});
    return sum(mul((*embedding_)(words), reshape(transpose(weights, 0, 1), {steps, texts, 1})), {0});
  }
  Tensor scores(const Tensor& encoded) override { return (*head_)(encoded); }
  Index classes() const override { return classes_; }

 private:
  Index classes_;
  std::shared_ptr<nn::Embedding> embedding_;
  std::shared_ptr<nn::Linear> head_;
};

struct BagOptions {
  Index width = 8;
};

models::ModelInfo bag_entry() {
  return models::model(
      "bag", "the mean of the words' vectors",
      Describe<BagOptions>().key("width", &BagOptions::width, "numbers of a word", models::size_rule()),
      [](const BagOptions& o, const models::DataInfo& data) {
        return std::make_shared<Bag>(data.words, data.classes, o.width);
      });
}

}  // namespace consumer

int main(int argc, char** argv) {
  using namespace tandem;
  datasets::labelled_sets().add(consumer::stripes_entry);
  datasets::transforms().add(consumer::negative_entry);
  datasets::labelled_corpora().add(consumer::letters_entry);
  models::layer_types().add(consumer::mish_entry);
  models::registry().add(consumer::bag_entry);
  tasks::classification_losses().add(consumer::brier_entry);
  tasks::class_figures().add(tasks::ClassFigure{
      "balanced_accuracy", {.share = true, .greater_is_better = true}, consumer::balanced_accuracy});
  return cli::run(argc, argv);
}
