#include "bench/training_of_one.h"
#include "data/batch.h"
#include "models/causal_model.h"
#include "models/masked_model.h"
#include "optim/adamw.h"
#include "tandem.h"
#include "tasks/masked_language/evaluation.h"

namespace tandem::bench {

namespace {

constexpr double kClipNorm = 1.0;

template <class Model>
struct TextModel {
  std::shared_ptr<Model> model;
  optim::AdamW optimizer;

  // No weight decay of parameters whose name matches `undecayed`.
  TextModel(const Texts& workload, const char* undecayed)
      : model(std::dynamic_pointer_cast<Model>(models::build(workload.model, {.words = workload.words}))),
        optimizer(model->parameters(), {.lr = 1e-3,
                                        .beta2 = 0.99,
                                        .weight_decay = 0.1,
                                        .groups = {{.match = undecayed, .weight_decay = 0.0}}}) {}
};

// The recipe of configs/gpt2_small_char.json.
class NextWords final : TextModel<models::CausalModel>, public TrainingOfOne {
 public:
  NextWords(const Texts& workload, const amp::Precision& precision)
      : TextModel(workload, "bias|ln_"),
        TrainingOfOne(*model, optimizer, precision, kClipNorm),
        words_(drawn_words({workload.tokens, workload.texts}, workload.words, 1)),
        targets_(drawn_words(words_.shape(), workload.words, 2)) {}
  Index items() const override { return words_.numel(); }

 private:
  Tensor forward() override { return model->advance(words_, {}).hidden; }
  Tensor loss(const Tensor& hidden) override {
    return model->loss(hidden,
                       {.words = targets_, .ready = [this] { stages.finish(train::Stage::forward); }});
  }

  Tensor words_, targets_;
};

// The recipe of configs/bert_mini.json.
class MaskedWords final : TextModel<models::MaskedModel>, public TrainingOfOne {
 public:
  MaskedWords(const Texts& workload, const amp::Precision& precision)
      : TextModel(workload, "bias|LayerNorm"),
        TrainingOfOne(*model, optimizer, precision, kClipNorm),
        batch_({{"tokens", drawn_words({workload.texts, workload.tokens}, workload.words, 1)},
                {"lengths",
                 Tensor::full({workload.texts}, static_cast<double>(workload.tokens), {.dtype = DType::i64})},
                {"masked_positions",
                 drawn_words({workload.texts, workload.masked}, workload.texts * workload.tokens, 2)},
                {"masked_labels", drawn_words({workload.texts, workload.masked}, workload.words, 3)}},
               workload.texts) {}
  Index items() const override { return batch_["tokens"].numel(); }

 private:
  Tensor forward() override {
    scores_ = tasks::masked_scores(*model, batch_);
    return scores_.words;
  }
  Tensor loss(const Tensor& scores) override {
    return cross_entropy(scores, std::exchange(scores_, {}).labels);
  }

  datasets::Batch batch_;
  tasks::MaskedScores scores_;  // between forward and loss
};

}  // namespace

TrainingPtr next_words(const Texts& workload, const amp::Precision& precision) {
  return std::make_unique<NextWords>(workload, precision);
}

TrainingPtr masked_words(const Texts& workload, const amp::Precision& precision) {
  return std::make_unique<MaskedWords>(workload, precision);
}

}  // namespace tandem::bench
