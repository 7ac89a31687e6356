#include "data/text/pair_registry.h"

#include "data/text/pair_files.h"

namespace tandem::datasets {

PairCorpusRegistry& pair_corpora() {
  static PairCorpusRegistry family({.what = "pair corpus", .help = "the pairs of texts"}, {pair_files_entry});
  return family;
}

PairOptions resolved(const PairDataOptions& options) {
  const PairOptions& common = options.common;
  if (common.codec || common.source_codec || common.target_codec) return common;
  PairOptions own = pair_corpora().make(options.set).defaults;
  if (!own.codec && !own.source_codec) own.codec = CodecChoice("unigram");
  own.max_length = common.max_length;
  return own;
}

PairCorpus open_pairs(const PairDataOptions& options, const PairCodecs& known) {
  return make_pair_corpus(pair_corpora().make(options.set).read(), resolved(options), known);
}

PairCorpus open_pairs(std::string_view name, const PairOptions& common, const options::Given& own) {
  return open_pairs({options::Choice<pair_corpora>(name, own), common});
}

std::optional<PairCodecs> described_codecs(const PairDataOptions& options) {
  const PairOptions common = resolved(options);
  if (common.codec) {
    const TextCodecPtr one = described_codec(*common.codec);
    return one ? std::optional(PairCodecs{one, one}) : std::nullopt;
  }
  const TextCodecPtr source = common.source_codec ? described_codec(*common.source_codec) : nullptr;
  const TextCodecPtr target = common.target_codec ? described_codec(*common.target_codec) : nullptr;
  return source && target ? std::optional(PairCodecs{source, target}) : std::nullopt;
}

}  // namespace tandem::datasets
