#include "tasks/translation/translate.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "files/json_text.h"
#include "files/output.h"
#include "tasks/input_texts.h"

namespace tandem::tasks {

namespace {

constexpr std::size_t kSentencesAtOnce = 32;

std::vector<std::vector<BeamHypothesis>> found_of(models::SequenceToSequence& model,
                                                  std::span<const datasets::EncodedText> texts,
                                                  const BeamOptions& options, Device device) {
  const auto count = static_cast<Index>(texts.size());
  std::vector<std::int64_t> lengths;
  for (const auto& text : texts) lengths.push_back(static_cast<std::int64_t>(text.ids.size()));
  const Tensor source =
      Tensor::zeros({std::max<Index>(std::ranges::max(lengths), 1), count}, {.dtype = DType::i64});
  for (Index i = 0; i < count; ++i) {
    const auto& ids = texts[static_cast<std::size_t>(i)].ids;
    for (std::size_t t = 0; t < ids.size(); ++t)
      source.data<std::int64_t>()[static_cast<Index>(t) * count + i] = ids[t];
  }
  return search(model, source.to(device), Tensor::from(lengths, {count}), options);
}

void print_found(const std::string& text, Index unknown, std::span<const BeamHypothesis> found,
                 const datasets::TextCodec& codec, const PredictRequest& request) {
  if (request.json) {
    Json translations = Json::array();
    for (const BeamHypothesis& one : found)
      translations.push_back({{"text", codec.decode(one.tokens)},
                              {"score", one.score},
                              {"log_probability", one.log_probability},
                              {"ended", one.ended}});
    output::print(
        "{}\n", files::json_text(
                    Json{{"input", text}, {"unknown", unknown}, {"translations", std::move(translations)}}));
    return;
  }
  if (!request.top) {
    output::print("{}\n", codec.decode(found.front().tokens));
    return;
  }
  output::print("{}\n", text);
  for (const BeamHypothesis& one : found)
    output::print("  {:8.3f}  {}\n", one.score, codec.decode(one.tokens));
}

}  // namespace

void translate(models::SequenceToSequence& model, const TranslationData& data, const BeamOptions& options,
               const PredictRequest& request, Device device) {
  require(!request.inputs.empty(), "",
          "predict: inputs are missing: texts, files with a text in each line, or - for standard input");
  const std::vector<std::string> texts = texts_of(request.inputs);
  const auto wanted = static_cast<std::size_t>(request.top.value_or(1));
  BeamOptions search = options;
  search.width = std::max<Index>(search.width, static_cast<Index>(wanted));
  Index unknown = 0;
  for (std::size_t first = 0; first < texts.size(); first += kSentencesAtOnce) {
    std::vector<datasets::EncodedText> encoded;
    for (std::size_t i = first; i < std::min(texts.size(), first + kSentencesAtOnce); ++i) {
      encoded.push_back(data.codecs().source->encode(texts[i]));
      unknown += encoded.back().unknown;
    }
    auto found = found_of(model, encoded, search, device);
    // An empty line stays empty.
    for (std::size_t i = 0; i < found.size(); ++i)
      if (encoded[i].ids.empty()) found[i] = {{.ended = true}};
    for (std::size_t i = 0; i < found.size(); ++i)
      print_found(texts[first + i], encoded[i].unknown,
                  std::span(found[i]).first(std::min(wanted, found[i].size())), *data.codecs().target,
                  request);
  }
  if (unknown > 0 && !request.json)
    output::remark("predict: {} pieces of the input are unknown to the model\n", unknown);
}

}  // namespace tandem::tasks
