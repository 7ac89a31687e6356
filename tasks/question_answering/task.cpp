#include "tasks/question_answering/task.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "tasks/families.h"
#include "tasks/question_answering/predict.h"
#include "tasks/synthetic.h"

namespace tandem::tasks {

QuestionAnswering::QuestionAnswering(const QuestionAnsweringOptions& options, const Context& context,
                                     std::shared_ptr<const QuestionData> data)
    : TextTask(options, context, data, {.dtype = DType::i64, .words = data->codec().size()}) {
  const Index least = options_.data.max_question + datasets::kWindowMarks;
  if (model_->context() <= least)
    throw options::OptionError(
        "model.context",
        fmt::format("must be above {}: a question of data.max_question={} pieces, [CLS], two [SEP] "
                    "and a piece of a context; is {}",
                    least, options_.data.max_question, model_->context()));
  if (!data_->is_open()) return;
  const datasets::QuestionCorpus& corpus = data_->corpus();
  Index number = 0;
  for (const datasets::EncodedQuestions* split : {&corpus.train, &corpus.validation, &corpus.test}) {
    parts_.push_back(std::make_shared<const datasets::QuestionWindows>(
        datasets::windows_of({data_, split}, window_options(), number)));
    number += parts_.back()->size();
  }
}

datasets::QuestionWindowOptions QuestionAnswering::window_options() const {
  return {.longest = model_->context(),
          .max_question = options_.data.max_question,
          .stride = options_.data.stride};
}

Index QuestionAnswering::grid() const {
  const Index usual = datasets::BucketOptions{}.grid;
  return model_->context() % usual == 0 ? usual : 1;
}

Tensor QuestionAnswering::loss(const datasets::Batch& batch, const LossContext& context) {
  const Tensor scores = window_scores(*model_, batch);
  if (context.ready) context.ready();
  return span_loss(scores, batch);
}

const std::shared_ptr<const datasets::QuestionWindows>& QuestionAnswering::windows(
    const std::string& split) const {
  data_->split(split);
  return parts_.at(split == "train" ? 0 : split == "validation" ? 1 : 2);
}

datasets::SourcePtr QuestionAnswering::windows_source(const std::string& split, Index count,
                                                      const datasets::BucketOptions& options,
                                                      Device device) const {
  return std::make_shared<datasets::QuestionSource>(windows(split), count, data_->marks(), options, device);
}

datasets::SourcePtr QuestionAnswering::training_source(Device device, Index batch_size) const {
  const Index count = batch_size > 0 ? batch_size : context_.loading.batch_size;
  const bool full = batch_size > 0 || context_.loading.drop_last;
  Index all = windows("train")->size();
  if (is_overfit_run()) all = std::min(all, count * context_.loading.overfit_batches);
  if (full && all > count) all -= all % count;
  return windows_source("train", all,
                        {.sentences = count,
                         .shuffle = context_.loading.shuffle && !is_overfit_run(),
                         .seed = context_.seed,
                         .grid = grid()},
                        device);
}

datasets::SourcePtr QuestionAnswering::source_of(const std::string& split, Device device) const {
  return windows_source(split, windows(split)->size(),
                        {.sentences = context_.loading.evaluated_at_once(), .shuffle = false, .grid = grid()},
                        device);
}

datasets::Batch QuestionAnswering::synthetic_batch(Index samples, std::uint64_t seed, Device device) const {
  const Shape texts{samples, model_->context()}, each{samples};
  if (device == kShapes)
    return {{{"tokens", shape_only(texts)},
             {"segments", shape_only(texts)},
             {"mask", shape_only(texts, DType::f32)},
             {"lengths", shape_only(each)},
             {"start", shape_only(each)},
             {"end", shape_only(each)}},
            samples};
  RandomStream random({.seed = seed, .purpose = RandomPurpose::synthetic_data});
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(samples), texts[1]);
  const Tensor tokens = random_ids(texts, data_->codec().size(), random);
  const Tensor segments = random_ids(texts, 2, random);
  const Tensor start = random_ids(each, texts[1], random);
  datasets::Batch batch({{"tokens", tokens},
                         {"segments", segments},
                         {"mask", Tensor::zeros(texts)},
                         {"lengths", Tensor::from(lengths, each)},
                         {"start", start},
                         {"end", random_ids(each, texts[1], random)}},
                        samples);
  batch.keep_on_host("lengths");
  return batch.to(device);
}

std::unique_ptr<Evaluation> QuestionAnswering::evaluation(bool details) {
  return std::make_unique<QuestionEvaluation>(*model_, parts_, options_.eval, data_->has_unanswerable(),
                                              details);
}

std::string QuestionAnswering::text_of(const datasets::Batch& batch) const {
  return fmt::format("{} windows of up to {} pieces", batch["tokens"].size(0), batch["tokens"].size(1));
}

std::string QuestionAnswering::text_of_data() const {
  const datasets::QuestionCorpus& corpus = data_->corpus();
  std::string text =
      fmt::format("{}: {} questions to train on, {} for validation, {} to test on; {} of {} pieces",
                  data_->name(), corpus.train.size(), corpus.validation.size(), corpus.test.size(),
                  data_->codec().name(), data_->codec().size());
  if (data_->is_open()) {
    const auto without = std::ranges::count_if(corpus.train.questions,
                                               [](const auto& question) { return question.answers.empty(); });
    text += fmt::format(
        "; {} training questions without an answer; {} training windows; {:.1f} % of the pieces of training "
        "contexts are unknown",
        without, windows("train")->size(),
        100.0 * static_cast<double>(corpus.train.unknown) / static_cast<double>(corpus.train.pieces));
  }
  for (const std::string& note : corpus.notes) text += "; " + note;
  return text;
}

std::map<std::string, std::string> QuestionAnswering::export_metadata() const {
  return export_metadata_of(Json{{"codec", data_->codec().description()}}, model_->context());
}

void QuestionAnswering::predict(const PredictRequest& request, Device device) {
  answer_questions(*model_, *data_, options_.eval, window_options(), request, device);
}

TaskRegistry::Entry question_answering_family() {
  return family_of<TextTaskFactory<QuestionAnswering, QuestionAnsweringOptions, QuestionData>>(
      "question_answering", "answers to questions, as parts of a text");
}

}  // namespace tandem::tasks
