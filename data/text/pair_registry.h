// Registry of pair corpora: "text_pairs" (data/text/pair_files.h), and those of extensions.
#pragma once

#include <functional>
#include <string_view>

#include "data/chosen_set.h"
#include "data/text/pair_corpus.h"

namespace tandem::datasets {

struct PairReader {
  std::function<PairTexts()> read;
  // Codecs for configurations that name none; if `defaults` names none, a unigram model of 8000 pieces for
  // both sides.
  PairOptions defaults{};
};

using PairCorpusRegistry = options::Registry<PairReader()>;
// There is no default.
PairCorpusRegistry& pair_corpora();

// Configuration of a pair corpus.
using PairDataOptions = ChosenSet<pair_corpora, PairOptions>;

// The common options, with the corpus's own codecs where `options.common` names none.
PairOptions resolved(const PairDataOptions& options);

// Reads the files. `known` holds codecs of existing weights or of a resumed run; if given, no codec is
// trained. Throws UserError for missing files, with their package, and for invalid files.
PairCorpus open_pairs(const PairDataOptions& options, const PairCodecs& known = {});
// Opens a corpus by name. Throws UserError also for an unknown name (with the nearest) and for unknown keys.
//   open_pairs("text_pairs", {}, {{"train", "pairs.tsv"}});
PairCorpus open_pairs(std::string_view name, const PairOptions& common = {}, const options::Given& own = {});

// Codecs known before reading, as by described_codec; absent if a side has no bound.
std::optional<PairCodecs> described_codecs(const PairDataOptions& options);

}  // namespace tandem::datasets
