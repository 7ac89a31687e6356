// Pair corpora: pairs of texts, such as sentences and translations or words and pronunciations, encoded for
// training, validation and test.
#pragma once

#include <string>
#include <vector>

#include "data/text/codec.h"

namespace tandem::datasets {

// ---- As text

struct TextPair {
  std::string source;
  // One or more correct targets. Training uses each as an example; evaluation uses the first as target and
  // all as references.
  std::vector<std::string> targets;
};

// Raw texts of a corpus. Validation and test may be empty.
struct PairTexts {
  std::vector<TextPair> train, validation, test;
  std::string where;               // for messages: a file, a folder
  std::vector<std::string> notes;  // hints for the user
};

// ---- As ids

struct EncodedPairs {
  // Concatenated sequences without begin and end; `begins` are their offsets and the end of the last.
  std::vector<std::int32_t> source_ids, target_ids;
  std::vector<Index> source_begins{0}, target_begins{0};
  Index unknown_source = 0, unknown_target = 0;  // pieces without an id
  // By pair, for evaluation; empty for training.
  std::vector<std::string> sources;
  std::vector<std::vector<std::string>> references;

  Index size() const { return static_cast<Index>(source_begins.size()) - 1; }
  std::span<const std::int32_t> source(Index pair) const;
  std::span<const std::int32_t> target(Index pair) const;
  void add(std::span<const std::int32_t> source, std::span<const std::int32_t> target);
  Index longest_source() const;
  Index longest_target() const;
};

struct PairCodecs {
  TextCodecPtr source, target;  // the same object if both sides share their ids
  bool shared() const { return source == target; }
};

struct PairCorpus {
  PairCodecs codecs;
  EncodedPairs train, validation, test;
  std::vector<std::string> notes;  // hints for the user
};

// Options of all pair corpora. Without a codec, a corpus uses its own (pair_registry.h).
struct PairOptions {
  std::optional<CodecChoice> codec{};  // for both sides
  std::optional<CodecChoice> source_codec{}, target_codec{};
  // Largest number of pieces of a side, without begin and end. Training pairs with a longer or empty side are
  // left out and counted in the notes. Evaluation keeps all pairs, so that metrics are of the same texts for
  // all codecs.
  Index max_length = 100;
  static const options::Schema& schema();
};

// Encodes a corpus with `known` codecs, or with those named in the options, one of which must be given.
// Throws UserError in the name of texts.where when no training pair remains, and as codecs do.
PairCorpus make_pair_corpus(const PairTexts& texts, const PairOptions& options, const PairCodecs& known = {});

}  // namespace tandem::datasets
