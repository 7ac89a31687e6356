// Pair corpora: texts with what they become – sentences and their translations, words and how they are
// pronounced – as numbers, for training, choosing and the final test.
#pragma once

#include <string>
#include <vector>

#include "data/text/codec.h"

namespace tandem::datasets {

// ---- As text

struct TextPair {
  std::string source;
  // One or more that are right. Each is an example for training; of an evaluated pair the first is the
  // target, and all are references.
  std::vector<std::string> targets;
};

// What a corpus has read. Validation and test may be empty.
struct PairTexts {
  std::vector<TextPair> train, validation, test;
  std::string where;               // for messages: a file, a folder
  std::vector<std::string> notes;  // what a user should be told
};

// ---- As numbers

struct EncodedPairs {
  // Sequence after sequence, without begin and end; where each begins, and the end of the last.
  std::vector<std::int32_t> source_ids, target_ids;
  std::vector<Index> source_begins{0}, target_begins{0};
  Index unknown_source = 0, unknown_target = 0;  // pieces that have no number
  // Of evaluated pairs, by pair; empty for training.
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
  TextCodecPtr source, target;  // the same object where both sides share their numbers
  bool shared() const { return source == target; }
};

struct PairCorpus {
  PairCodecs codecs;
  EncodedPairs train, validation, test;
  std::vector<std::string> notes;  // what a user should be told
};

// What every corpus is told. Where no codec is named, the corpus has its own (pair_registry.h).
struct PairOptions {
  std::optional<CodecChoice> codec{};  // one for both sides
  std::optional<CodecChoice> source_codec{}, target_codec{};
  // Pieces, without begin and end. A training pair of which either side has more, or none, is left out and
  // counted in the notes. Evaluated pairs are all kept, so that figures are of the same texts whatever the
  // codec.
  Index max_length = 100;
  static const options::Schema& schema();
};

// `codec`, or `source_codec` and `target_codec`, must be named unless `known` ones are given, which are then
// used as they are. Throws UserError in the name of texts.where when no training pair remains, and what
// codecs throw.
PairCorpus make_pair_corpus(const PairTexts& texts, const PairOptions& options, const PairCodecs& known = {});

}  // namespace tandem::datasets
