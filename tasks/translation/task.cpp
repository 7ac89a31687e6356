#include "tasks/translation/task.h"

#include <fmt/core.h>

#include <algorithm>

#include "autograd/ops/loss.h"
#include "core/error.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "data/text/stream_source.h"
#include "tasks/families.h"
#include "tasks/synthetic.h"
#include "tasks/translation/evaluation.h"
#include "tasks/translation/translate.h"

namespace tandem::tasks {

namespace {

using datasets::BucketOptions;
using datasets::EncodedPairs;

// The first `count` training pairs.
EncodedPairs first_of(const EncodedPairs& all, Index count) {
  EncodedPairs first;
  for (Index i = 0; i < std::min(count, all.size()); ++i) first.add(all.source(i), all.target(i));
  return first;
}

// Share of pieces outside the vocabularies, on both sides.
double unknown_share(const EncodedPairs& pairs) {
  const std::size_t all = pairs.source_ids.size() + pairs.target_ids.size();
  return static_cast<double>(pairs.unknown_source + pairs.unknown_target) /
         static_cast<double>(std::max<std::size_t>(all, 1));
}

}  // namespace

Translation::Translation(const TranslationOptions& options, const Context& context,
                         std::shared_ptr<const TranslationData> data)
    : TextTask(options, context, data,
               {.dtype = DType::i64,
                .words = data->codecs().source->size(),
                .target_words = data->codecs().target->size(),
                .shared_words = data->codecs().shared()}) {
  if (options_.eval.coverage_penalty.value_or(0.0) > 0.0 && !model_->gives_attention())
    throw options::OptionError("eval.coverage_penalty",
                               "needs attention weights, which this model does not return; set it to 0");
}

Tensor Translation::loss(const datasets::Batch& batch, const LossContext& context) {
  const Tensor logits = (*model_)(batch["source"], source_lengths(batch), batch["target_in"]);
  if (context.ready) context.ready();
  return cross_entropy(
      logits, batch["target"],
      {.label_smoothing = options_.loss.label_smoothing, .ignore_index = datasets::kNoTarget});
}

Translation::SourceOfPairs Translation::first_pairs(const std::string& split, Index pairs,
                                                    const BucketOptions& options, Device device) const {
  const EncodedPairs& all = data_->split(split);
  const datasets::TextCodec& target = *data_->codecs().target;
  return std::make_shared<const datasets::PairSource>(
      std::make_shared<const EncodedPairs>(pairs < all.size() ? first_of(all, pairs) : all),
      datasets::PairSource::Marks{.begin = target.begin(), .end = target.end()}, options, device,
      data_->first_of(split));
}

Translation::SourceOfPairs Translation::training_pairs(Device device, Index batch_size) const {
  const Index count = batch_size > 0 ? batch_size : context_.loading.batch_size;
  const bool by_tokens = batch_size == 0 && options_.data.batch_tokens > 0;
  Index pairs = data_->split("train").size();
  if (is_overfit_run()) pairs = std::min(pairs, count * context_.loading.overfit_batches);
  if ((batch_size > 0 || (context_.loading.drop_last && !by_tokens)) && pairs > count) pairs -= pairs % count;
  return first_pairs("train", pairs,
                     {.sentences = by_tokens ? 0 : count,
                      .tokens = by_tokens ? options_.data.batch_tokens : 0,
                      .shuffle = context_.loading.shuffle && !is_overfit_run(),
                      .seed = context_.seed},
                     device);
}

datasets::SourcePtr Translation::training_source(Device device, Index batch_size) const {
  return training_pairs(device, batch_size);
}

datasets::SourcePtr Translation::source_of(const std::string& split, Device device) const {
  return first_pairs(split, data_->split(split).size(),
                     {.sentences = context_.loading.evaluated_at_once(), .shuffle = false}, device);
}

datasets::Batch Translation::synthetic_batch(Index samples, std::uint64_t seed, Device device) const {
  const Index grid = BucketOptions{}.grid;
  const Shape source{datasets::padded_length(data_->max_length(), grid), samples};
  const Shape target{datasets::padded_length(data_->max_length() + 1, grid), samples};
  RandomStream random({.seed = seed, .purpose = RandomPurpose::synthetic_data});
  const auto pieces = [&](const Shape& shape, Index below) {
    return device == kShapes ? shape_only(shape) : random_ids(shape, below, random);
  };
  const auto numbers = [&](const auto& of) {
    if (device == kShapes) return shape_only({samples});
    std::vector<std::int64_t> values;
    for (Index i = 0; i < samples; ++i) values.push_back(of(i));
    return Tensor::from(values, {samples});
  };
  const auto [from, to] = std::pair(data_->codecs().source->size(), data_->codecs().target->size());
  datasets::Batch batch({{"source", pieces(source, from)},
                         {"source_length", numbers([&](Index) { return source[0]; })},
                         {"target_in", pieces(target, to)},
                         {"target", pieces(target, to)},
                         {"target_length", numbers([&](Index) { return target[0]; })},
                         {"pair", numbers([&](Index i) { return data_->first_of("train") + i; })}},
                        samples);
  batch.weight = static_cast<double>(target.numel());
  if (device == kShapes) return batch;
  batch.keep_on_host("source_length");
  return batch.to(device);
}

std::unique_ptr<Evaluation> Translation::evaluation(bool details) {
  return std::make_unique<TranslationEvaluation>(*model_, *data_, search_options(), details);
}

std::string Translation::text_of(const datasets::Batch& batch) const {
  return fmt::format("{} pairs of up to {} and {} pieces", batch["source"].size(1), batch["source"].size(0),
                     batch["target"].size(0));
}

std::string Translation::text_of_data() const {
  const datasets::PairCorpus& corpus = data_->corpus();
  const datasets::PairCodecs& codecs = data_->codecs();
  std::string text =
      fmt::format("{}: {} pairs to train on, {} for validation, {} to test on; ", data_->name(),
                  corpus.train.size(), corpus.validation.size(), corpus.test.size());
  text += codecs.shared()
              ? fmt::format("{} pieces on both sides", codecs.source->size())
              : fmt::format("{} source and {} target pieces", codecs.source->size(), codecs.target->size());
  if (corpus.train.size() > 0) {
    text += fmt::format(", {:.1f} % of the text's are unknown", 100.0 * unknown_share(corpus.train));
    text += fmt::format("; {:.0f} % of an epoch is text, the rest padding",
                        100.0 * training_pairs({}, 0)->real_share(0));
  }
  for (const std::string& note : corpus.notes) text += "; " + note;
  return text;
}

std::vector<std::string> Translation::notes_of_data() const {
  const datasets::TextCodec& target = *data_->codecs().target;
  if (!data_->is_open() || !target.drops_case()) return {};
  return {
      fmt::format("codec \"{}\" writes in lower case, so BLEU compares in lower case (case:lc); a codec that "
                  "keeps case is unigram, bpe, spaces or characters",
                  target.name())};
}

std::vector<Signature> Translation::signatures() {
  Signature own = signature(data_->max_length());
  own.parts = exported_parts();
  if (own.parts.empty()) own.no_graph = "of the models for translation, only transformer has an ONNX export";
  return {own};
}

std::map<std::string, std::string> Translation::export_metadata() const {
  const datasets::PairCodecs& codecs = data_->codecs();
  const std::vector<nn::Part> parts = exported_parts();
  auto metadata = export_metadata_of(
      codecs.shared() ? Json{{"codec", codecs.source->description()}} : data_->description(),
      parts.empty() ? std::nullopt : parts.front().longest);
  metadata["tandem.begin"] = std::to_string(codecs.target->begin());
  metadata["tandem.end"] = std::to_string(codecs.target->end());
  metadata["tandem.max_length"] = std::to_string(search_options().max_length);
  return metadata;
}

void Translation::predict(const PredictRequest& request, Device device) {
  translate(*model_, *data_, search_options(), request, device);
}

TaskRegistry::Entry translation_family() {
  return family_of<TextTaskFactory<Translation, TranslationOptions, TranslationData>>(
      "translation", "a text from another one");
}

}  // namespace tandem::tasks
