#include "data/text/pair_corpus.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "core/options/check.h"
#include "data/limits.h"

namespace tandem::datasets {

namespace {

std::span<const std::int32_t> part(const std::vector<std::int32_t>& ids, const std::vector<Index>& begins,
                                   Index pair) {
  const Index first = begins.at(static_cast<std::size_t>(pair));
  const Index end = begins.at(static_cast<std::size_t>(pair) + 1);
  return std::span(ids).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
}

Index longest(const std::vector<Index>& begins) {
  Index most = 0;
  for (std::size_t i = 1; i < begins.size(); ++i) most = std::max(most, begins[i] - begins[i - 1]);
  return most;
}

std::vector<std::string_view> sources_of(const std::vector<TextPair>& pairs) {
  std::vector<std::string_view> texts;
  for (const TextPair& pair : pairs) texts.emplace_back(pair.source);
  return texts;
}

std::vector<std::string_view> targets_of(const std::vector<TextPair>& pairs) {
  std::vector<std::string_view> texts;
  for (const TextPair& pair : pairs) texts.insert(texts.end(), pair.targets.begin(), pair.targets.end());
  return texts;
}

PairCodecs make_codecs(const PairTexts& texts, const PairOptions& options) {
  require(options.codec.has_value() != (options.source_codec && options.target_codec), "pair_corpus",
          "no codec is named; set `codec` for both sides, or `source_codec` and `target_codec`");
  std::vector<std::string_view> sources = sources_of(texts.train), targets = targets_of(texts.train);
  if (options.codec) {
    sources.insert(sources.end(), targets.begin(), targets.end());
    const TextCodecPtr one = codecs().make(*options.codec, {sources, texts.where});
    return {one, one};
  }
  return {codecs().make(*options.source_codec, {sources, texts.where + " (source)"}),
          codecs().make(*options.target_codec, {targets, texts.where + " (target)"})};
}

class Encoder {
 public:
  Encoder(const PairCodecs& codecs, Index max_length) : codecs_(codecs), max_length_(max_length) {}

  EncodedPairs train(const std::vector<TextPair>& pairs) {
    EncodedPairs encoded;
    for (const TextPair& pair : pairs) {
      const EncodedText source = codecs_.source->encode(pair.source);
      for (const std::string& text : pair.targets) {
        const EncodedText target = codecs_.target->encode(text);
        const bool fits = !too_long(source) && !too_long(target);
        left_out_ += !fits;
        empty_ += fits && (source.ids.empty() || target.ids.empty());
        if (fits && !source.ids.empty() && !target.ids.empty()) add(encoded, source, target);
      }
    }
    return encoded;
  }

  EncodedPairs evaluated(const std::vector<TextPair>& pairs) {
    EncodedPairs encoded;
    for (const TextPair& pair : pairs) {
      const EncodedText source = codecs_.source->encode(pair.source);
      const EncodedText target = codecs_.target->encode(pair.targets.front());
      kept_ += too_long(source) || too_long(target);
      add(encoded, source, target);
      encoded.sources.push_back(pair.source);
      encoded.references.push_back(pair.targets);
    }
    return encoded;
  }

  Index left_out() const { return left_out_; }

  std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    if (left_out_ > 0)
      notes.push_back(
          fmt::format("{} training pairs have more than {} pieces on a side (max_length) and are left out",
                      left_out_, max_length_));
    if (empty_ > 0)
      notes.push_back(fmt::format("{} training pairs have a side without a piece and are left out", empty_));
    if (kept_ > 0)
      notes.push_back(
          fmt::format("{} pairs for validation and test have more than {} pieces on a side; they are kept",
                      kept_, max_length_));
    return notes;
  }

 private:
  bool too_long(const EncodedText& text) const { return static_cast<Index>(text.ids.size()) > max_length_; }
  static void add(EncodedPairs& pairs, const EncodedText& source, const EncodedText& target) {
    pairs.add(source.ids, target.ids);
    pairs.unknown_source += source.unknown;
    pairs.unknown_target += target.unknown;
  }

  const PairCodecs& codecs_;
  Index max_length_, left_out_ = 0, empty_ = 0, kept_ = 0;
};

}  // namespace

std::span<const std::int32_t> EncodedPairs::source(Index pair) const {
  return part(source_ids, source_begins, pair);
}

std::span<const std::int32_t> EncodedPairs::target(Index pair) const {
  return part(target_ids, target_begins, pair);
}

void EncodedPairs::add(std::span<const std::int32_t> source, std::span<const std::int32_t> target) {
  source_ids.insert(source_ids.end(), source.begin(), source.end());
  target_ids.insert(target_ids.end(), target.begin(), target.end());
  source_begins.push_back(static_cast<Index>(source_ids.size()));
  target_begins.push_back(static_cast<Index>(target_ids.size()));
}

Index EncodedPairs::longest_source() const { return longest(source_begins); }
Index EncodedPairs::longest_target() const { return longest(target_begins); }

const options::Schema& PairOptions::schema() {
  static const options::Schema schema =
      options::Describe<PairOptions>()
          .key("codec", &PairOptions::codec,
               "codec of both sides, which then share their ids; null: two codecs, or the corpus's own")
          .key("source_codec", &PairOptions::source_codec, "codec of the source")
          .key("target_codec", &PairOptions::target_codec, "codec of the target")
          .key("max_length", &PairOptions::max_length,
               "largest number of pieces of a side; longer training pairs are left out",
               {.min = 1, .max = kMaxPieces})
          .rule("codec", "is for both sides; remove source_codec and target_codec",
                [](const PairOptions& o) { return !o.codec || (!o.source_codec && !o.target_codec); })
          .rule(
              "source_codec", "and target_codec come together, unless `codec` is for both sides",
              [](const PairOptions& o) { return o.source_codec.has_value() == o.target_codec.has_value(); });
  return schema;
}

PairCorpus make_pair_corpus(const PairTexts& texts, const PairOptions& options, const PairCodecs& known) {
  options::require_sound("pair_corpus", PairOptions::schema(), &options);
  require(!texts.train.empty(), texts.where, "has no training pair");
  PairCorpus corpus{.codecs = known.source ? known : make_codecs(texts, options),
                    .train = {},
                    .validation = {},
                    .test = {},
                    .notes = texts.notes};
  Encoder encoder(corpus.codecs, options.max_length);
  corpus.train = encoder.train(texts.train);
  corpus.validation = encoder.evaluated(texts.validation);
  corpus.test = encoder.evaluated(texts.test);
  require(corpus.train.size() > 0, texts.where,
          "none of {} training pairs remains: {} have more than {} pieces on a side (max_length), the others "
          "a side without a piece",
          targets_of(texts.train).size(), encoder.left_out(), options.max_length);
  std::ranges::copy(encoder.notes(), std::back_inserter(corpus.notes));
  return corpus;
}

}  // namespace tandem::datasets
