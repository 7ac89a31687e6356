// The figures of a translator: how likely it takes the references to be, and how far from them what it writes
// by itself is.
#pragma once

#include <string>

#include "metrics/bleu.h"
#include "metrics/error_rate.h"
#include "metrics/perplexity.h"
#include "models/sequence_to_sequence.h"
#include "tasks/translation/search.h"

namespace tandem::tasks {

// "source_length" of a batch in host memory, as models want it; on the device `shapes` absent.
Tensor source_lengths(const datasets::Batch& batch);

// Loss and perplexity are of the first reference's pieces, the end included, each given those before it,
// without label smoothing. Of what beam search writes: BLEU against all references (sacrebleu's defaults;
// where the target's codec drops case, in lower case, sacrebleu -lc);
// errors per piece of the nearest reference, of which no piece that the codec does not know is ever found;
// the share of texts with an error. Of pairs to train on, the target is the reference.
class TranslationEvaluation final : public Evaluation {
 public:
  // All are kept by reference. `details` asks for the translations.
  TranslationEvaluation(models::SequenceToSequence& model, const TranslationData& data,
                        const BeamOptions& options, bool details)
      : model_(model), data_(data), options_(options), keeps_(details) {}

  // The loss; of what is written what the figures are sums of, and the lines of the translations.
  Record forward(const datasets::Batch& batch) override;
  void accumulate(std::span<const std::byte> record) override;
  Metrics metrics() const override;
  // "bleu": its signature, brevity penalty, precisions and lengths; "pieces": errors by their kind; "cut":
  // translations that had not ended at max_length.
  Json details() const override;
  // "translations.tsv": a line for each text, what it was, what was written, the references; white space is
  // one space.
  std::vector<Artifact> artifacts() const override;

 private:
  struct Loss {
    double nll = 0.0;
    std::int64_t targets = 0;
  };
  // Of all texts, or of a batch's.
  struct Written {
    metrics::BleuStatistics bleu;
    metrics::ErrorRate pieces;
    Index cut = 0;
  };
  Loss loss_of(const datasets::Batch& batch);
  // Adds what a text has to `sums` and `lines`.
  void count(Index pair, const std::vector<std::int32_t>& target, const BeamHypothesis& found, Written& sums,
             std::string& lines) const;

  models::SequenceToSequence& model_;
  const TranslationData& data_;
  BeamOptions options_;
  bool keeps_;
  metrics::Perplexity perplexity_;
  Written written_;
  std::string lines_;
};

}  // namespace tandem::tasks
