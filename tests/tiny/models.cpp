#include "tests/tiny/models.h"

#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "models/adversarial_pair.h"
#include "models/box_finder.h"
#include "models/causal_model.h"
#include "models/detector.h"
#include "models/registry_keys.h"
#include "models/sequence_to_sequence.h"
#include "models/text_encoder.h"
#include "nn/layers/conv.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/sequential.h"
#include "nn/layers/shape.h"

namespace tandem::test {

namespace {

using models::DataInfo;
using models::State;

// Causal attention of one head. Its state is a cache that grows with the words: "keys" and "values" [T,N,E].
class CachedAttention final : public nn::Module {
 public:
  explicit CachedAttention(Index width)
      : query_(add_child("query", std::make_shared<nn::Linear>(width, width))),
        key_(add_child("key", std::make_shared<nn::Linear>(width, width))),
        value_(add_child("value", std::make_shared<nn::Linear>(width, width))) {}

  // x [T,N,E] behind `before`; `after` is the cache with x in it.
  Tensor operator()(const Tensor& x, const State& before, State& after) {
    return observed([&] {
      const auto grown = [&](const char* name, const Tensor& own) {
        const Tensor cached = before.find(name);
        after.set(name, cached.defined() ? concat({cached, own}, 0) : own);
        return after.find(name);
      };
      const auto rows_first = [](const Tensor& sequences) { return transpose(sequences, 0, 1); };
      const Tensor keys = grown("keys", (*key_)(x)), values = grown("values", (*value_)(x));
      return add(x, rows_first(scaled_dot_product_attention(rows_first((*query_)(x)), rows_first(keys),
                                                            rows_first(values), {.causal = true})));
    });
  }
  std::string describe() const override { return "CachedAttention"; }

 private:
  std::shared_ptr<nn::Linear> query_, key_, value_;
};

// A decoder-only model of one block: every piece of a stream begins anew, and the cache serves generation.
class Causal final : public models::CausalModel {
 public:
  Causal(Index words, Index width)
      : embedding_(add_child("embedding", std::make_shared<nn::Embedding>(words, width))),
        attention_(add_child("attention", std::make_shared<CachedAttention>(width))),
        head_(add_child("head", std::make_shared<nn::Linear>(width, words))) {}
  Tensor scores(const Tensor& hidden) override { return (*head_)(hidden); }
  bool carries_state() const override { return false; }
  std::string describe() const override { return "Causal"; }

 private:
  Advanced read(const Tensor& words, const State& state, const Tensor&) override {
    Advanced advanced;
    advanced.hidden = (*attention_)((*embedding_)(words), state, advanced.state);
    return advanced;
  }

  std::shared_ptr<nn::Embedding> embedding_;
  std::shared_ptr<CachedAttention> attention_;
  std::shared_ptr<nn::Linear> head_;
};

// An encoder–decoder without recurrence; hypotheses look at the memory without a copy of it for each.
class Translator final : public models::SequenceToSequence {
 public:
  Translator(Index source_words, Index target_words, Index width)
      : source_(add_child("source", std::make_shared<nn::Embedding>(source_words, width))),
        target_(add_child("target", std::make_shared<nn::Embedding>(target_words, width))),
        attention_(add_child("attention", std::make_shared<CachedAttention>(width))),
        question_(add_child("question", std::make_shared<nn::Linear>(width, width))),
        head_(add_child("head", std::make_shared<nn::Linear>(2 * width, target_words))) {}

  Memory encode(const Tensor& source, const Tensor& lengths) override {
    Memory memory{.values = {}, .lengths = lengths};
    memory.values.set("values", (*source_)(source));
    return memory;
  }
  Advanced advance(const Tensor& words, const Memory& memory, const State& state) override {
    Advanced advanced;
    const Tensor x = (*attention_)((*target_)(words), state, advanced.state);
    const Tensor values = transpose(memory.values.find("values"), 0, 1);  // [N,S,E]
    const Index sources = values.size(0), steps = x.size(0), rows = x.size(1), width = x.size(2);
    // Questions of each source: its steps, or the hypotheses of the one step.
    const bool alone = rows == sources;
    const Tensor asked = (*question_)(x);
    const Tensor questions =
        alone ? transpose(asked, 0, 1) : reshape(asked, {sources, rows / sources, width});
    const Tensor weights =
        masked_softmax(matmul(questions, values, false, /*transpose_b=*/true), {.lengths = memory.lengths});
    const auto in_rows = [&](const Tensor& found) {
      return alone ? transpose(found, 0, 1) : reshape(found, {steps, rows, found.size(2)});
    };
    advanced.hidden = concat({x, in_rows(bmm(weights, values))}, 2);
    advanced.attention = in_rows(weights);
    return advanced;
  }
  Tensor scores(const Tensor& hidden) override { return (*head_)(hidden); }
  std::string describe() const override { return "Translator"; }

 private:
  std::shared_ptr<nn::Embedding> source_, target_;
  std::shared_ptr<CachedAttention> attention_;
  std::shared_ptr<nn::Linear> question_, head_;
};

// The mean of the words' embeddings; words behind the end of a text have weight 0.
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
  std::string describe() const override { return "Bag"; }

 private:
  Index classes_;
  std::shared_ptr<nn::Embedding> embedding_;
  std::shared_ptr<nn::Linear> head_;
};

// Two stages: what loss() and decode() start from are features, and each has its boxes from a head of its
// own. No graph of ops gives them.
class TwoStages final : public models::Detector {
 public:
  static constexpr Index kCell = 8;  // pixels

  TwoStages(const Shape& image, Index classes, Index width)
      : classes_(classes),
        features_(add_child("features",
                            std::make_shared<nn::Conv2d>(image[2], width, std::array<Index, 2>{kCell, kCell},
                                                         nn::ConvOptions{.stride = {kCell, kCell}}))),
        head_(add_child("head", std::make_shared<nn::Linear>(width, classes + 4))),
        cells_(add_constant("cells", cells(image[0] / kCell, image[1] / kCell))) {}

  Index classes() const override { return classes_; }
  TensorList forward_outputs(const TensorList& xs) override { return {relu((*features_)(xs.at(0)))}; }
  Tensor loss(const TensorList& outputs, const Tensor& boxes,
              const models::MultiboxOptions& options) override {
    return multibox_loss(second_stage(outputs.at(0)), cells_, boxes, options).total;
  }
  std::vector<std::vector<models::FoundBox>> decode(const TensorList& outputs,
                                                    const models::SuppressionOptions& options) override {
    return find_boxes(second_stage(outputs.at(0)), cells_, options);
  }
  std::string describe() const override { return "TwoStages"; }

 private:
  static Tensor cells(Index rows, Index columns) {
    std::vector<float> boxes;
    for (Index y = 0; y < rows; ++y)
      for (Index x = 0; x < columns; ++x)
        for (const double value : {(static_cast<double>(x) + 0.5) / static_cast<double>(columns),
                                   (static_cast<double>(y) + 0.5) / static_cast<double>(rows), 0.4, 0.4})
          boxes.push_back(static_cast<float>(value));
    return Tensor::from(boxes, {rows * columns, 4});
  }
  models::AnchorOutput second_stage(const Tensor& features) {
    const Tensor both = reshape((*head_)(features), {features.size(0), cells_.size(0), classes_ + 4});
    return {slice(both, 2, 0, classes_), slice(both, 2, classes_, classes_ + 4)};
  }

  Index classes_;
  std::shared_ptr<nn::Conv2d> features_;
  std::shared_ptr<nn::Linear> head_;
  const Tensor& cells_;
};

class Painter final : public nn::Module {
 public:
  Painter(Index noise, const Shape& image)
      : image_(image), linear_(add_child("linear", std::make_shared<nn::Linear>(noise, image.numel()))) {}
  Tensor forward(const Tensor& z) override {
    return reshape(tanh((*linear_)(reshape(z, {z.size(0), z.size(3)}))), image_.inserted(0, z.size(0)));
  }

 private:
  Shape image_;
  std::shared_ptr<nn::Linear> linear_;
};

// Two linear layers, for images of any size.
class Painters final : public models::AdversarialPair {
 public:
  Painters(const Shape& image, Index noise)
      : image_(image),
        noise_(noise),
        generator_(add_child("generator", std::make_shared<Painter>(noise, image))),
        discriminator_(add_child("discriminator", std::make_shared<nn::Sequential>())) {
    discriminator_->add(std::make_shared<nn::Flatten>());
    discriminator_->add(std::make_shared<nn::Linear>(image.numel(), 1));
  }
  nn::Module& generator() const override { return *generator_; }
  nn::Module& discriminator() const override { return *discriminator_; }
  Index noise() const override { return noise_; }
  Shape image() const override { return image_; }
  std::string describe() const override { return "Painters"; }

 private:
  Shape image_;
  Index noise_;
  std::shared_ptr<nn::Module> generator_;
  std::shared_ptr<nn::Sequential> discriminator_;
};

struct Width {
  Index width = 12;
};

// Adds a model that has a width and takes everything else from the data.
template <class Make>
void add(const char* name, const char* help, Make make) {
  models::registry().add(models::model(
      name, help,
      options::Describe<Width>().key("width", &Width::width, "numbers of each vector", models::size_rule()),
      [make](const Width& o, const DataInfo& data) { return make(o.width, data); }));
}

}  // namespace

void add_tiny_models() {
  add("tiny_causal", "a decoder with a cache",
      [](Index width, const DataInfo& data) { return std::make_shared<Causal>(data.words, width); });
  add("tiny_translator", "attention on the words of the source", [](Index width, const DataInfo& data) {
    return std::make_shared<Translator>(data.words, data.target_words, width);
  });
  add("tiny_bag", "the mean of words", [](Index width, const DataInfo& data) {
    return std::make_shared<Bag>(data.words, data.classes, width);
  });
  add("tiny_detector", "a detector of two stages", [](Index width, const DataInfo& data) {
    return std::make_shared<TwoStages>(data.sample, data.classes, width);
  });
  add("tiny_gan", "two linear layers against each other",
      [](Index width, const DataInfo& data) { return std::make_shared<Painters>(data.sample, width); });
}

}  // namespace tandem::test
