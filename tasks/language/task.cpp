#include "tasks/language/task.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "core/units.h"
#include "data/text/candidate_source.h"
#include "data/text/window_source.h"
#include "files/json_text.h"
#include "tasks/families.h"
#include "tasks/language/evaluation.h"
#include "tasks/language/generate.h"
#include "tasks/language/penalties.h"
#include "tasks/synthetic.h"

namespace tandem::tasks {

Language::Language(const LanguageOptions& options, const Context& context,
                   std::shared_ptr<const LanguageData> data)
    : TextTask(options, context, data, {.dtype = DType::i64, .words = data->codec().size()}) {
  if (options_.loss.label_smoothing > 0.0 && !model_->sees_all_words())
    throw options::OptionError("loss.label_smoothing",
                               "needs the scores of all words, as in the full softmax");
  const std::string& best = options_.checkpoint.best;
  if ((best == kBitsPerCharacter && !data_->of_characters()) || (best == kBitsPerByte && !data_->has_bytes()))
    throw options::OptionError(
        "checkpoint.best", fmt::format("is a metric of {}, but the tokenizer is \"{}\"",
                                       best == kBitsPerByte ? "characters and byte_bpe" : "character models",
                                       data_->codec().name()));
  if (options_.data.random_steps && !model_->carries_state())
    throw options::OptionError("data.random_steps", "needs a model that carries a state between batches");
  if (const auto longest = model_->context(); longest && model_->is_bounded() && steps() > *longest)
    throw options::OptionError(
        "data.steps",
        fmt::format("is {}, more than the context of the model, {} (model.context)", steps(), *longest));
}

std::vector<Index> Language::bytes_of_ids() const {
  const datasets::TextCodec& codec = data_->codec();
  if (!data_->has_bytes()) return {};
  std::vector<Index> bytes;
  for (std::int32_t id = 0; id < codec.size(); ++id) {
    const bool mark = id == codec.end() || id == codec.unknown();
    bytes.push_back(!mark                     ? static_cast<Index>(codec.decode({&id, 1}).size())
                    : codec.keeps_line_ends() ? 0
                                              : 1);
  }
  return bytes;
}

Index Language::steps() const {
  constexpr Index kSteps = 35;
  return options_.data.steps.value_or(model_->carries_state() ? kSteps : model_->context().value_or(kSteps));
}

std::optional<datasets::CandidateOptions> Language::candidates() const {
  const auto sampled = model_->candidates();
  if (!sampled) return std::nullopt;
  return datasets::CandidateOptions{.classes = data_->codec().size(),
                                    .samples = sampled->samples,
                                    .unique = sampled->unique,
                                    .seed = context_.seed};
}

Tensor Language::loss(const datasets::Batch& batch, const LossContext& context) {
  const auto [token, target] = chunk_of(batch, *model_);
  const auto advanced = model_->advance(token, context.carry ? *context.carry : CarriedState());
  if (context.carry && model_->carries_state()) *context.carry = advanced.state.carried();
  models::CausalModel::Targets targets{
      .words = target, .label_smoothing = options_.loss.label_smoothing, .ready = context.ready};
  if (candidates())
    targets.candidates = {batch["candidate"], batch["candidate_log_count"],
                          batch["target_log_count"].rows(0, target.size(0))};
  return penalised(model_->loss(advanced.hidden, targets), advanced, options_.loss.ar, options_.loss.tar);
}

datasets::SourcePtr Language::streams(datasets::StreamSource::Ids ids, Index streams, bool training,
                                      Device device) const {
  const auto source = std::make_shared<datasets::StreamSource>(
      std::move(ids), datasets::StreamOptions{.streams = streams,
                                              .steps = steps(),
                                              .random_lengths = training && options_.data.random_steps,
                                              .seed = context_.seed,
                                              .begin = data_->codec().begin(),
                                              .device = device});
  const auto drawn = candidates();
  if (!training || !drawn) return source;
  return std::make_shared<datasets::CandidateSource>(source, *drawn);
}

datasets::SourcePtr Language::windows(datasets::StreamSource::Ids ids, Index windows, bool shuffle,
                                      Device device) const {
  return std::make_shared<datasets::WindowSource>(std::move(ids),
                                                  datasets::WindowOptions{.windows = windows,
                                                                          .length = steps(),
                                                                          .shuffle = shuffle,
                                                                          .seed = context_.seed,
                                                                          .begin = data_->codec().begin(),
                                                                          .device = device});
}

datasets::StreamSource::Ids Language::ids_of(const std::string& split, Index streams) const {
  const datasets::PackedIds& ids = data_->split(split).ids;
  require(static_cast<Index>(ids.size()) >= streams, data_->name(),
          "the {} split has {} {}, too few for {} parallel streams; use fewer (data.{}), or a longer text",
          split, ids.size(), samples_are(), streams, split == "train" ? "batch_size" : "eval_batch_size");
  return {data_, &ids};
}

datasets::SourcePtr Language::training_source(Device device, Index batch_size) const {
  const Index count = batch_size > 0 ? batch_size : context_.loading.batch_size;
  datasets::StreamSource::Ids ids = ids_of("train", count);
  const Index few = context_.loading.overfit_batches;
  if (few > 0) {
    const auto words = static_cast<std::size_t>(count * few * steps());
    ids = std::make_shared<const datasets::PackedIds>(ids->first(words));
  }
  if (model_->carries_state()) return streams(std::move(ids), count, true, device);
  return windows(std::move(ids), count, context_.loading.shuffle && few == 0, device);
}

datasets::SourcePtr Language::source_of(const std::string& split, Device device) const {
  const Index count = context_.loading.evaluated_at_once();
  if (!model_->carries_state()) return windows(ids_of(split, 1), count, false, device);
  return streams(ids_of(split, count), count, false, device);
}

datasets::Batch Language::synthetic_batch(Index streams, std::uint64_t seed, Device device) const {
  const Shape shape{steps(), streams};
  if (device == kShapes) {
    datasets::Batch batch({{"token", shape_only(shape)}, {"target", shape_only(shape)}}, shape.numel());
    if (const auto drawn = candidates()) {
      batch.set("candidate", shape_only({drawn->samples}));
      batch.set("candidate_log_count", shape_only({drawn->samples}, DType::f32));
      batch.set("target_log_count", shape_only(shape, DType::f32));
    }
    return batch;
  }
  RandomStream random({.seed = seed, .purpose = RandomPurpose::synthetic_data});
  // Vocabularies are sorted by descending frequency.
  const datasets::LogUniform distribution(data_->codec().size());
  const auto words = [&] {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(shape.numel()));
    for (auto& id : ids) id = distribution.draw(random);
    return Tensor::from(ids, shape);
  };
  const Tensor token = words(), target = words();
  datasets::Batch batch({{"token", token}, {"target", target}}, shape.numel());
  if (const auto drawn = candidates())
    for (const datasets::Field& field : datasets::candidate_fields(*drawn, {}, target))
      batch.set(field.name, field.value);
  return batch.to(device);
}

std::unique_ptr<Evaluation> Language::evaluation(bool) {
  return std::make_unique<LanguageEvaluation>(*model_, bytes_of_ids(), data_->of_characters());
}

std::string Language::text_of(const datasets::Batch& batch) const {
  return fmt::format("{} steps of {} {}", batch["token"].size(0), batch["token"].size(1),
                     model_->carries_state() ? "streams" : "windows");
}

std::string Language::samples_are() const { return data_->units(); }

std::string Language::text_of_data() const {
  const datasets::TextCorpus& corpus = data_->corpus();
  const auto size = [](const datasets::PackedText& text) { return static_cast<double>(text.ids.size()); };
  std::string text =
      fmt::format("{}: {} {} to train on, {} for validation, {} to test on; a vocabulary of {}",
                  data_->name(), count_text(size(corpus.train)), samples_are(),
                  count_text(size(corpus.validation)), count_text(size(corpus.test)), data_->codec().size());
  if (size(corpus.train) > 0)
    text +=
        fmt::format(", {:.1f} % of the {} are not in it",
                    100.0 * static_cast<double>(corpus.train.unknown) / size(corpus.train), samples_are());
  if (data_->is_open())
    text +=
        fmt::format("; {} of memory",
                    bytes_text(static_cast<double>(corpus.train.ids.bytes() + corpus.validation.ids.bytes() +
                                                   corpus.test.ids.bytes())));
  for (const std::string& note : corpus.notes) text += "; " + note;
  return text;
}

std::map<std::string, std::string> Language::export_metadata() const {
  return export_metadata_of(data_->description(), model_->context());
}

std::vector<std::string> Language::predict_options() const {
  return {"--prompt", "--temperature", "--top",  "--top-p", "--repetition-penalty",
          "--count",  "--stop",        "--seed", "--json"};
}

void Language::predict(const PredictRequest& request, Device device) {
  write_text(*model_, *data_, request, device);
}

TaskRegistry::Entry language_family() {
  return family_of<TextTaskFactory<Language, LanguageOptions, LanguageData>>(
      "language", "the next word of a text from those before it");
}

}  // namespace tandem::tasks
