#include "tasks/translation/data.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/limits.h"

namespace tandem::tasks {

namespace {

constexpr const char* kSides[] = {"source", "target"};

const datasets::TextCodec& codec_of(const datasets::PairCodecs& codecs, int side) {
  return side == 0 ? *codecs.source : *codecs.target;
}

std::optional<datasets::PairCodecs> codecs_of(const Json* words_of) {
  if (!words_of) return std::nullopt;
  const DataPtr then = TranslationData::recall(*words_of);
  return static_cast<const TranslationData&>(*then).codecs();
}

}  // namespace

std::shared_ptr<TranslationData> TranslationData::named(const datasets::PairDataOptions& options) {
  auto data = std::shared_ptr<TranslationData>(new TranslationData());
  data->name_ = options.set.name();
  data->max_length_ = options.common.max_length;
  return data;
}

DataPtr TranslationData::open(const TranslationOptions& options, const Json* words_of) {
  const auto data = named(options.data.pairs);
  data->corpus_ =
      datasets::open_pairs(options.data.pairs, codecs_of(words_of).value_or(datasets::PairCodecs()));
  data->training_samples_ = data->corpus_.train.size();
  return data;
}

DataPtr TranslationData::describe(const TranslationOptions& options, const Json* words_of) {
  const auto codecs = words_of ? codecs_of(words_of) : datasets::described_codecs(options.data.pairs);
  if (!codecs) return open(options);
  const auto data = named(options.data.pairs);
  data->corpus_.codecs = *codecs;
  return data;
}

DataPtr TranslationData::recall(const Json& description) {
  auto data = std::shared_ptr<TranslationData>(new TranslationData());
  read_description([&] {
    data->name_ = description.at("name").get<std::string>();
    data->max_length_ = description.at("max_length").get<Index>();
    data->training_samples_ = description.at("training_pairs").get<Index>();
    datasets::PairCodecs& codecs = data->corpus_.codecs;
    codecs.source = datasets::recall_codec(description.at("source_codec"), "data");
    codecs.target = description.at("shared").get<bool>()
                        ? codecs.source
                        : datasets::recall_codec(description.at("target_codec"), "data");
  });
  require(data->max_length_ > 0 && data->max_length_ <= datasets::kMaxPieces, "data",
          "the description is damaged: texts have up to {} pieces, the maximum is {}", data->max_length_,
          datasets::kMaxPieces);
  return data;
}

Json TranslationData::description() const {
  Json description{{"name", name_},
                   {"max_length", max_length_},
                   {"training_pairs", training_samples_},
                   {"shared", codecs().shared()},
                   {"source_codec", codecs().source->description()}};
  if (!codecs().shared()) description["target_codec"] = codecs().target->description();
  return description;
}

void TranslationData::require_like(const Json& saved, const std::string& weights) const {
  const DataPtr then = recall(saved);
  const auto& other = static_cast<const TranslationData&>(*then);
  for (const int side : {0, 1}) {
    const datasets::TextCodec &theirs = codec_of(other.codecs(), side), &ours = codec_of(codecs(), side);
    require(theirs.description() == ours.description(), "",
            "{}: were trained with other pieces of the {}: {} of \"{}\", {} has {} different ones of \"{}\"",
            weights, kSides[side], theirs.size(), theirs.name(), name_, ours.size(), ours.name());
  }
  require(other.codecs().shared() == codecs().shared(), "",
          "{}: were trained with {} for both sides, {} has {}", weights,
          other.codecs().shared() ? "one codec" : "a codec each", name_,
          codecs().shared() ? "one codec" : "a codec each");
}

std::vector<NamedVocabulary> TranslationData::vocabularies() const {
  std::vector<NamedVocabulary> both;
  for (const int side : {0, 1}) {
    const datasets::TextCodec& codec = codec_of(codecs(), side);
    both.push_back({fmt::format("{} pieces", kSides[side]), codec.name(), {}});
    for (Index i = 0; i < codec.size(); ++i)
      both.back().words.push_back(codec.piece(static_cast<std::int32_t>(i)));
  }
  return both;
}

Index TranslationData::first_of(const std::string& split) const {
  if (split == "validation") return 0;
  const Index validation = corpus_.validation.size();
  return split == "test" ? validation : validation + corpus_.test.size();
}

TranslationData::Place TranslationData::place_of(Index pair) const {
  const Index test = first_of("test"), train = first_of("train");
  if (pair >= train) return {nullptr, 0};
  return pair < test ? Place{&corpus_.validation, static_cast<std::size_t>(pair)}
                     : Place{&corpus_.test, static_cast<std::size_t>(pair - test)};
}

const std::string* TranslationData::source_of(Index pair) const {
  const auto [pairs, number] = place_of(pair);
  return pairs ? &pairs->sources.at(number) : nullptr;
}

const std::vector<std::string>* TranslationData::references_of(Index pair) const {
  const auto [pairs, number] = place_of(pair);
  return pairs ? &pairs->references.at(number) : nullptr;
}

}  // namespace tandem::tasks
