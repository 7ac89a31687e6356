// Pair corpora by name: "text_pairs" (data/text/pair_files.h), and those that were added.
#pragma once

#include <functional>
#include <string_view>

#include "data/text/pair_corpus.h"

namespace tandem::datasets {

struct PairReader {
  std::function<PairTexts()> read;
  // Its codecs where a configuration names none: those of `defaults`, or 8000 pieces of a unigram model for
  // both sides.
  PairOptions defaults{};
};

using PairCorpusRegistry = options::Registry<PairReader()>;
// One must be named.
PairCorpusRegistry& pair_corpora();

// What a configuration says about a pair corpus.
struct PairDataOptions {
  options::Choice<pair_corpora> corpus;
  PairOptions common;
  static const options::Schema& schema();
};

// With the corpus's own codecs where `options.common` names none.
PairOptions resolved(const PairDataOptions& options);

// Reads the files. `known`: codecs of before, that of weights or of a run that goes on; none are made then.
// Throws UserError: missing files, with the package that has them, and whatever is wrong with the files.
PairCorpus open_pairs(const PairDataOptions& options, const PairCodecs& known = {});
// By name; throws UserError also for an unknown one (with the nearest) and for keys it does not have.
//   open_pairs("text_pairs", {}, {{"train", "pairs.tsv"}});
PairCorpus open_pairs(std::string_view name, const PairOptions& common = {}, const options::Given& own = {});

// Without reading, as described_codec; nothing where a side has no bound.
std::optional<PairCodecs> described_codecs(const PairDataOptions& options);

}  // namespace tandem::datasets
