#include "tasks/translation/evaluation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "autograd/ops/loss.h"
#include "core/shapes_backend.h"
#include "data/text/stream_source.h"
#include "data/text/unicode.h"

namespace tandem::tasks {

namespace {

constexpr std::int32_t kNeverWritten = -1;

// Replaces line breaks and tabs, which separate lines and columns of the file.
std::string in_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

// Lower-cases references if the codec writes lower case.
std::vector<std::string> in_its_case(std::vector<std::string> references, const datasets::TextCodec& codec) {
  if (codec.drops_case())
    for (std::string& text : references) text = datasets::lower_case(text);
  return references;
}

// The targets of a batch, without their ends.
std::vector<std::vector<std::int32_t>> targets_of(const datasets::Batch& batch) {
  const Tensor& field = batch["target"];
  const auto ids = field.to_vector<std::int64_t>(),
             lengths = batch["target_length"].to_vector<std::int64_t>();
  std::vector<std::vector<std::int32_t>> targets(lengths.size());
  for (std::size_t row = 0; row < lengths.size(); ++row)
    for (std::size_t t = 0; static_cast<std::int64_t>(t) + 1 < lengths[row]; ++t)
      targets[row].push_back(static_cast<std::int32_t>(ids[t * lengths.size() + row]));
  return targets;
}

}  // namespace

Tensor source_lengths(const datasets::Batch& batch) {
  return batch["source"].device() == kShapes ? Tensor() : batch.on_host("source_length");
}

TranslationEvaluation::Loss TranslationEvaluation::loss_of(const datasets::Batch& batch) {
  const NoGrad no_grad;
  const Tensor logits = model_(batch["source"], source_lengths(batch), batch["target_in"]);
  const Tensor nll =
      cross_entropy(logits, batch["target"], {.ignore_index = datasets::kNoTarget, .reduce = Reduce::sum});
  return {.nll = nll.item(), .targets = static_cast<std::int64_t>(batch.weight)};
}

void TranslationEvaluation::count(Index pair, const std::vector<std::int32_t>& target,
                                  const BeamHypothesis& found, Written& sums, std::string& lines) const {
  const datasets::TextCodec& codec = *data_.codecs().target;
  const std::vector<std::string>* const given = data_.references_of(pair);
  const std::vector<std::string> texts = given ? *given : std::vector{codec.decode(target)};
  std::vector<std::vector<std::int32_t>> references;
  for (const std::string& text : texts) {
    references.push_back(given ? codec.encode(text).ids : target);
    std::ranges::replace(references.back(), codec.unknown(), kNeverWritten);
  }
  const std::string written = codec.decode(found.tokens);
  sums.bleu += metrics::bleu_statistics(written, in_its_case(texts, codec));
  sums.pieces.add(metrics::nearest_edits(references, found.tokens));
  sums.cut += !found.ended;
  if (!keeps_) return;
  const std::string* const source = data_.source_of(pair);
  lines += (source ? in_one_line(*source) : "") + '\t' + in_one_line(written);
  for (const std::string& text : texts) lines += '\t' + in_one_line(text);
  lines += '\n';
}

Record TranslationEvaluation::forward(const datasets::Batch& batch) {
  RecordWriter writer;
  writer.put(loss_of(batch));
  const auto found = search(model_, batch["source"], source_lengths(batch), options_);
  const auto pairs = batch["pair"].to_vector<std::int64_t>();
  const auto targets = targets_of(batch);
  Written sums;
  std::string lines;
  for (std::size_t i = 0; i < found.size(); ++i) count(pairs[i], targets[i], found[i].front(), sums, lines);
  writer.put(sums).put_text(lines);
  return std::move(writer).record();
}

void TranslationEvaluation::accumulate(std::span<const std::byte> record) {
  RecordReader reader(record);
  const auto loss = reader.take<Loss>();
  const auto sums = reader.take<Written>();
  const std::string lines = reader.take_text();
  reader.end();
  perplexity_.add(loss.nll, loss.targets);
  written_.bleu += sums.bleu;
  written_.pieces.merge(sums.pieces);
  written_.cut += sums.cut;
  lines_ += lines;
}

Metrics TranslationEvaluation::metrics() const {
  return {{"loss", perplexity_.mean()},
          {"perplexity", perplexity_.value()},
          {"bleu", metrics::bleu_score(written_.bleu).score},
          {"piece_error_rate", written_.pieces.rate()},
          {"text_error_rate", written_.pieces.sequence_error_rate()}};
}

Json TranslationEvaluation::details() const {
  const metrics::BleuScore score = metrics::bleu_score(written_.bleu);
  const metrics::Edits& edits = written_.pieces.sum();
  return {{"bleu",
           {{"signature",
             metrics::bleu_signature({.lower_case = data_.codecs().target->drops_case()}, std::nullopt)},
            {"brevity_penalty", score.brevity_penalty},
            {"precisions", score.precisions},
            {"words", written_.bleu.hypothesis_length},
            {"reference_words", written_.bleu.reference_length}}},
          {"pieces",
           {{"substitutions", edits.substitutions},
            {"deletions", edits.deletions},
            {"insertions", edits.insertions},
            {"of", edits.reference_length}}},
          {"cut", written_.cut}};
}

std::vector<Artifact> TranslationEvaluation::artifacts() const {
  if (!keeps_) return {};
  return {{"translations.tsv", lines_}};
}

}  // namespace tandem::tasks
