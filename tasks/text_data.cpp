#include "tasks/text_data.h"

#include <fmt/core.h>

#include <algorithm>

#include "files/json_text.h"

namespace tandem::tasks {

using datasets::Vocabulary;

Vocabulary assumed_words(Index size) {
  std::vector<std::string> words{std::string(Vocabulary::kUnknownWord), std::string(Vocabulary::kEndWord)};
  while (static_cast<Index>(words.size()) < size) words.push_back(fmt::format("word {}", words.size()));
  return {std::move(words), "data.vocabulary.size"};
}

void require_same_words(const std::vector<std::string>& a, const std::vector<std::string>& b,
                        const std::string& weights, const std::string& name) {
  if (a == b) return;
  const auto [first, other] = std::ranges::mismatch(a, b);
  throw UserError("", fmt::format("{}: were trained with other words: {} of them, {} has {}; the first "
                                  "difference is number {}, \"{}\" there and \"{}\" here",
                                  weights, a.size(), name, b.size(), first - a.begin(),
                                  first == a.end() ? "" : *first, other == b.end() ? "" : *other));
}

datasets::TextCodecPtr saved_codec(const Json& description) {
  datasets::TextCodecPtr codec;
  read_description([&] {
    Json saved;
    if (description.contains("codec")) {
      saved = description.at("codec");
    } else {
      saved["name"] = description.at("tokenizer");
      saved["vocabulary"] = description.at("vocabulary");
    }
    codec = datasets::recall_codec(saved, "the description of the data");
  });
  return codec;
}

void require_same_codec(const datasets::TextCodec& theirs, const datasets::TextCodec& ours,
                        const std::string& weights, const std::string& name) {
  require(theirs.description() == ours.description(), "",
          "{}: were trained with other pieces: {} of \"{}\", {} has {} different ones of \"{}\"", weights,
          theirs.size(), theirs.name(), name, ours.size(), ours.name());
}

bool has_tokenizer(const datasets::TextCodec& codec) {
  const std::vector<std::string> names = datasets::tokenizers().names();
  return std::ranges::find(names, codec.name()) != names.end();
}

NamedVocabulary vocabulary_of(const datasets::TextCodec& codec) {
  const char* const what = !has_tokenizer(codec)          ? "pieces"
                           : codec.name() == "characters" ? "characters"
                                                          : "words";
  NamedVocabulary all{what, codec.name(), {}};
  for (Index i = 0; i < codec.size(); ++i) all.words.push_back(codec.piece(static_cast<std::int32_t>(i)));
  return all;
}

std::map<std::string, std::string> export_metadata_of(const Json& description, std::optional<Index> context) {
  std::map<std::string, std::string> metadata;
  if (context) metadata["tandem.context"] = std::to_string(*context);
  for (const auto& [key, from] : {std::pair{"words", "vocabulary"},
                                  {"tokenizer", "tokenizer"},
                                  {"codec", "codec"},
                                  {"source_codec", "source_codec"},
                                  {"target_codec", "target_codec"},
                                  {"max_words", "max_words"},
                                  {"class_names", "classes"}})
    if (description.contains(from))
      metadata[std::string("tandem.") + key] = files::json_text(description.at(from));
  return metadata;
}

void read_description(const std::function<void()>& read) try {
  read();
} catch (const nlohmann::json::exception& error) {
  throw UserError("data", fmt::format("the description is damaged: {}", files::json_reason(error)));
}

}  // namespace tandem::tasks
