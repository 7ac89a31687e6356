#include "tasks/masked_language/task.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "core/error.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "core/units.h"
#include "data/text/stream_source.h"
#include "files/json_text.h"
#include "tasks/families.h"
#include "tasks/masked_language/evaluation.h"
#include "tasks/masked_language/fill_mask.h"
#include "tasks/synthetic.h"

namespace tandem::tasks {

MaskedLanguage::MaskedLanguage(const MaskedLanguageOptions& options, const Context& context,
                               std::shared_ptr<const MaskedLanguageData> data)
    : TextTask(options, context, data, {.dtype = DType::i64, .words = data->codec().size()}) {
  const Index least = 1 + datasets::marks_in(model_->scores_next());
  if (model_->context() <= least)
    throw options::OptionError(
        "model.context",
        fmt::format("must be above {}: the marks and a word of a text; is {}", least, model_->context()));
  if (options_.checkpoint.best == kNextAccuracy && !model_->scores_next())
    throw options::OptionError("checkpoint.best",
                               "is a metric of models with next sentences; set model.next_sentence=true");
}

Tensor MaskedLanguage::loss(const datasets::Batch& batch, const LossContext& context) {
  const MaskedScores scores = masked_scores(*model_, batch);
  if (context.ready) context.ready();
  const Tensor of_words = cross_entropy(scores.words, scores.labels, {.ignore_index = datasets::kNoTarget});
  return scores.next.defined() ? add(of_words, cross_entropy(scores.next, batch["next"])) : of_words;
}

Index MaskedLanguage::grid() const {
  const Index usual = datasets::BucketOptions{}.grid;
  return model_->context() % usual == 0 ? usual : 1;
}

datasets::Passages MaskedLanguage::passages(const std::string& split) const {
  const bool pairs = model_->scores_next();
  const std::shared_ptr<const datasets::PackedIds> ids{data_, &data_->split(split).ids};
  datasets::Passages found = datasets::passages_of(
      ids, data_->codec().end(), model_->context() - datasets::marks_in(pairs), pairs ? 2 : 1);
  require(found.size() > 0, data_->name(), "the {} split has no document of {} pieces or more", split,
          pairs ? 2 : 1);
  return found;
}

MaskedLanguage::MaskedTextSource MaskedLanguage::masked_texts(datasets::Passages passages, bool training,
                                                              const datasets::BucketOptions& options,
                                                              Device device) const {
  return std::make_shared<datasets::MaskedSource>(
      std::make_shared<const datasets::Passages>(std::move(passages)), data_->marks(),
      datasets::MaskingOptions{.share = options_.data.mask_share,
                               .most = options_.data.masked,
                               .pairs = model_->scores_next(),
                               .training = training,
                               .seed = context_.seed},
      options, device);
}

MaskedLanguage::MaskedTextSource MaskedLanguage::training_texts(Device device, Index batch_size) const {
  const Index count = batch_size > 0 ? batch_size : context_.loading.batch_size;
  const bool full = batch_size > 0 || context_.loading.drop_last;
  datasets::Passages all = passages("train");
  Index texts = all.size();
  if (is_overfit_run()) texts = std::min(texts, count * context_.loading.overfit_batches);
  if (full && texts > count) texts -= texts % count;
  all.places.resize(static_cast<std::size_t>(texts));
  return masked_texts(std::move(all), true,
                      {.sentences = count,
                       .shuffle = context_.loading.shuffle && !is_overfit_run(),
                       .seed = context_.seed,
                       .grid = grid()},
                      device);
}

datasets::SourcePtr MaskedLanguage::training_source(Device device, Index batch_size) const {
  return training_texts(device, batch_size);
}

datasets::SourcePtr MaskedLanguage::source_of(const std::string& split, Device device) const {
  return masked_texts(passages(split), false,
                      {.sentences = context_.loading.evaluated_at_once(), .shuffle = false, .grid = grid()},
                      device);
}

datasets::Batch MaskedLanguage::synthetic_batch(Index samples, std::uint64_t seed, Device device) const {
  const Index steps = model_->context(), most = options_.data.masked;
  const Shape texts{samples, steps}, chosen{samples, most};
  const bool pairs = model_->scores_next();
  datasets::Batch batch;
  if (device == kShapes) {
    batch = {{{"tokens", shape_only(texts)},
              {"lengths", shape_only({samples})},
              {"masked_positions", shape_only(chosen)},
              {"masked_labels", shape_only(chosen)}},
             samples};
    if (pairs) {
      batch.set("segments", shape_only(texts));
      batch.set("next", shape_only({samples}));
    }
    batch.weight = static_cast<double>(chosen.numel());
    return batch;
  }
  RandomStream random({.seed = seed, .purpose = RandomPurpose::synthetic_data});
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(samples), steps);
  const Index words = data_->codec().size();
  batch = {{{"tokens", random_ids(texts, words, random)},
            {"lengths", Tensor::from(lengths, {samples})},
            {"masked_positions", random_ids(chosen, texts.numel(), random)},
            {"masked_labels", random_ids(chosen, words, random)}},
           samples};
  if (pairs) {
    batch.set("segments", random_ids(texts, 2, random));
    batch.set("next", random_ids({samples}, 2, random));
  }
  batch.keep_on_host("lengths");
  batch.weight = static_cast<double>(chosen.numel());
  return batch.to(device);
}

std::unique_ptr<Evaluation> MaskedLanguage::evaluation(bool) {
  return std::make_unique<MaskedEvaluation>(*model_);
}

std::map<std::string, std::string> MaskedLanguage::undefined_figures(const std::string&) const {
  if (model_->scores_next()) return {};
  return {{kNextAccuracy, "the model has no head for next sentences (model.next_sentence)"}};
}

std::string MaskedLanguage::text_of(const datasets::Batch& batch) const {
  return fmt::format("{} texts of up to {} pieces, {:.0f} of them masked", batch["tokens"].size(0),
                     batch["tokens"].size(1), batch.weight);
}

std::string MaskedLanguage::text_of_data() const {
  const datasets::TextCorpus& corpus = data_->corpus();
  const auto size = [](const datasets::PackedText& text) { return static_cast<double>(text.ids.size()); };
  std::string text =
      fmt::format("{}: {} pieces to train on, {} for validation, {} to test on; {} of {} pieces",
                  data_->name(), count_text(size(corpus.train)), count_text(size(corpus.validation)),
                  count_text(size(corpus.test)), data_->codec().name(), data_->codec().size());
  if (data_->is_open())
    text += fmt::format(
        "; {:.1f} % of the training pieces are unknown; {:.0f} % of an epoch is text, the rest "
        "padding",
        100.0 * static_cast<double>(corpus.train.unknown) / size(corpus.train),
        100.0 * training_texts({}, 0)->order(0)->real_share);
  for (const std::string& note : corpus.notes) text += "; " + note;
  return text;
}

std::map<std::string, std::string> MaskedLanguage::export_metadata() const {
  return export_metadata_of(Json{{"codec", data_->codec().description()}}, model_->context());
}

void MaskedLanguage::predict(const PredictRequest& request, Device device) {
  fill_masks(*model_, *data_, request, device);
}

TaskRegistry::Entry masked_language_family() {
  return family_of<TextTaskFactory<MaskedLanguage, MaskedLanguageOptions, MaskedLanguageData>>(
      "masked_language", "masked words of a text from those around them");
}

}  // namespace tandem::tasks
