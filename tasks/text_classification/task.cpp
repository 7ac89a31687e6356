#include "tasks/text_classification/task.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "files/json_text.h"
#include "tasks/families.h"
#include "tasks/synthetic.h"
#include "tasks/text_classification/evaluation.h"
#include "tasks/text_classification/predict.h"

namespace tandem::tasks {

namespace {

using datasets::LabelledSequences;

LabelledSequences first_of(const LabelledSequences& all, Index count) {
  LabelledSequences first;
  for (Index i = 0; i < std::min(count, all.size()); ++i) {
    const auto at = static_cast<std::size_t>(i);
    first.add(std::span(all.ids).subspan(static_cast<std::size_t>(all.begins[at]),
                                         static_cast<std::size_t>(all.begins[at + 1] - all.begins[at])),
              all.labels[at]);
  }
  return first;
}

}  // namespace

TextClassification::TextClassification(const TextClassificationOptions& options, const Context& context,
                                       std::shared_ptr<const LabelledTextData> data)
    : TextTask(options, context, data,
               {.dtype = DType::i64,
                .classes = static_cast<Index>(data->classes().size()),
                .words = data->codec().size()}),
      loss_(classification_losses().make(options_.loss, model_->classes())) {
  require(!loss_->batch_weight(), "",
          "loss.batch_weight: texts count by their number; leave it at \"samples\"");
  if (const auto most = model_->longest_text(); most && longest_batch() > *most)
    throw options::OptionError(
        "data.max_words",
        fmt::format("is {}: with marks and padding texts have up to {} tokens, but the model "
                    "reads {} at most; lower it, or raise model.context",
                    data_->max_words(), longest_batch(), *most));
}

Index TextClassification::longest_batch() const {
  return datasets::padded_length(data_->max_words() + 1, datasets::BucketOptions{}.grid);
}

Tensor TextClassification::loss(const datasets::Batch& batch, const LossContext& context) {
  const Tensor logits = logits_of(*model_, batch);
  if (context.ready) context.ready();
  return (*loss_)(logits, batch);
}

std::shared_ptr<const datasets::SequenceSource> TextClassification::training_texts(Device device,
                                                                                   Index batch_size) const {
  const LabelledSequences& all = data_->split("train");
  const Index count = batch_size > 0 ? batch_size : context_.loading.batch_size;
  const bool full = batch_size > 0 || context_.loading.drop_last;
  Index texts = all.size();
  if (is_overfit_run()) texts = std::min(texts, count * context_.loading.overfit_batches);
  if (full && texts > count) texts -= texts % count;
  return std::make_shared<const datasets::SequenceSource>(
      std::make_shared<const LabelledSequences>(first_of(all, texts)),
      datasets::BucketOptions{.sentences = count,
                              .shuffle = context_.loading.shuffle && !is_overfit_run(),
                              .seed = context_.seed},
      device);
}

datasets::SourcePtr TextClassification::training_source(Device device, Index batch_size) const {
  return training_texts(device, batch_size);
}

datasets::SourcePtr TextClassification::source_of(const std::string& split, Device device) const {
  return std::make_shared<datasets::SequenceSource>(
      std::make_shared<const LabelledSequences>(data_->split(split)),
      datasets::BucketOptions{.sentences = context_.loading.evaluated_at_once(), .shuffle = false}, device);
}

datasets::Batch TextClassification::synthetic_batch(Index samples, std::uint64_t seed, Device device) const {
  const Shape shape{longest_batch(), samples};
  if (device == kShapes)
    return {
        {{"token", shape_only(shape)}, {"length", shape_only({samples})}, {"label", shape_only({samples})}},
        samples};
  RandomStream random({.seed = seed, .purpose = RandomPurpose::synthetic_data});
  const Tensor token = random_ids(shape, data_->codec().size(), random);
  const Tensor label = random_ids({samples}, static_cast<Index>(data_->classes().size()), random);
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(samples), shape[0]);
  datasets::Batch batch({{"token", token}, {"length", Tensor::from(lengths, {samples})}, {"label", label}},
                        samples);
  batch.keep_on_host("length");
  return batch.to(device);
}

std::unique_ptr<Evaluation> TextClassification::evaluation(bool details) {
  return std::make_unique<TextEvaluation>(*model_, *loss_, data_->classes(), details);
}

std::string TextClassification::text_of(const datasets::Batch& batch) const {
  return fmt::format("{} texts of up to {} words", batch["token"].size(1), batch["token"].size(0));
}

std::string TextClassification::text_of_data() const {
  const datasets::LabelledCorpus& corpus = data_->corpus();
  std::string text = fmt::format(
      "{}: {} texts to train on, {} for validation, {} to test on; {} classes; a vocabulary of {}",
      data_->name(), corpus.train.size(), corpus.validation.size(), corpus.test.size(), corpus.classes.size(),
      corpus.codec->size());
  if (corpus.words > 0)
    text += fmt::format(", {:.1f} % of the words are not in it",
                        100.0 * static_cast<double>(corpus.unknown) / static_cast<double>(corpus.words));
  if (data_->is_open())
    text += fmt::format("; {:.0f} % of an epoch is text, the rest padding",
                        100.0 * training_texts({}, 0)->order(0)->real_share);
  for (const std::string& note : corpus.notes) text += "; " + note;
  return text;
}

std::map<std::string, std::string> TextClassification::export_metadata() const {
  return export_metadata_of(data_->description(), model_->longest_text());
}

void TextClassification::predict(const PredictRequest& request, Device device) {
  classify_texts(*model_, *data_, request, device);
}

TaskRegistry::Entry text_classification_family() {
  return family_of<TextTaskFactory<TextClassification, TextClassificationOptions, LabelledTextData>>(
      "text_classification", "one class for each text");
}

}  // namespace tandem::tasks
