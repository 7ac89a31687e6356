#include "tasks/masked_language/data.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/text/wordpiece.h"

namespace tandem::tasks {

DataPtr MaskedLanguageData::open(const MaskedLanguageOptions& options, const Json* words_of) {
  const auto& text = options.data.text;
  datasets::CorpusOptions common;
  common.codec = text.common.codec;
  if (words_of) common.known_codec = saved_codec(*words_of);
  auto data = std::shared_ptr<MaskedLanguageData>(new MaskedLanguageData());
  data->name_ = text.set.name();
  data->corpus_ = datasets::corpora().make(text.set, common);
  data->training_samples_ = data->corpus_.train.size();
  return data;
}

DataPtr MaskedLanguageData::describe(const MaskedLanguageOptions& options, const Json* words_of) {
  const auto& text = options.data.text;
  const datasets::TextCodecPtr codec =
      words_of ? saved_codec(*words_of) : datasets::described_codec(text.common.codec);
  if (!codec) return open(options, words_of);
  auto data = std::shared_ptr<MaskedLanguageData>(new MaskedLanguageData());
  data->name_ = text.set.name();
  data->corpus_.codec = codec;
  return data;
}

DataPtr MaskedLanguageData::recall(const Json& description) {
  auto data = std::shared_ptr<MaskedLanguageData>(new MaskedLanguageData());
  data->corpus_.codec = saved_codec(description);
  read_description([&] {
    data->name_ = description.at("name").get<std::string>();
    data->training_samples_ = description.at("training_pieces").get<Index>();
  });
  return data;
}

Json MaskedLanguageData::description() const {
  return {{"name", name_}, {"training_pieces", training_samples_}, {"codec", codec().description()}};
}

void MaskedLanguageData::require_like(const Json& saved, const std::string& weights) const {
  require_same_codec(*saved_codec(saved), codec(), weights, name_);
}

std::vector<NamedVocabulary> MaskedLanguageData::vocabularies() const { return {vocabulary_of(codec())}; }

datasets::MaskedMarks MaskedLanguageData::marks() const {
  const datasets::WordPieceMarks own = datasets::wordpiece_marks(codec());
  datasets::MaskedMarks marks{
      .begin = codec().begin(),
      .end = codec().end(),
      .mask = own.mask,
      .padding = own.padding,
      .words = codec().size(),
      .special = {codec().begin(), codec().end(), codec().unknown(), own.mask, own.padding}};
  std::ranges::sort(marks.special);
  return marks;
}

}  // namespace tandem::tasks
