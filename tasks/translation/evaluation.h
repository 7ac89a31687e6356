// Metrics of translation: likelihood of the references, and quality of the translations by beam search.
#pragma once

#include <string>

#include "metrics/bleu.h"
#include "metrics/error_rate.h"
#include "metrics/perplexity.h"
#include "models/sequence_to_sequence.h"
#include "tasks/translation/search.h"

namespace tandem::tasks {

// "source_length" of a batch in host memory, for models; absent on the device `shapes`.
Tensor source_lengths(const datasets::Batch& batch);

// Loss and perplexity are those of the first reference's pieces including the end, with teacher forcing and
// without label smoothing. Of beam search: BLEU against all references (sacrebleu's defaults; sacrebleu -lc
// if the target's codec drops case); errors per piece of the nearest reference, where unknown pieces always
// count as errors; the share of texts with an error. For training pairs, the target is the reference.
class TranslationEvaluation final : public Evaluation {
 public:
  // Keeps references. `details`: save the translations.
  TranslationEvaluation(models::SequenceToSequence& model, const TranslationData& data,
                        const BeamOptions& options, bool details)
      : model_(model), data_(data), options_(options), keeps_(details) {}

  // The loss; the sums for the other metrics, and the lines of the translations.
  Record forward(const datasets::Batch& batch) override;
  void accumulate(std::span<const std::byte> record) override;
  Metrics metrics() const override;
  // "bleu": its signature, brevity penalty, precisions and lengths; "pieces": errors by kind; "cut":
  // translations that did not end before max_length.
  Json details() const override;
  // "translations.tsv": one line per text with source, translation and references; white space becomes one
  // space.
  std::vector<Artifact> artifacts() const override;

 private:
  struct Loss {
    double nll = 0.0;
    std::int64_t targets = 0;
  };
  // Sums over all texts, or over a batch's.
  struct Written {
    metrics::BleuStatistics bleu;
    metrics::ErrorRate pieces;
    Index cut = 0;
  };
  Loss loss_of(const datasets::Batch& batch);
  // Adds one text to `sums` and `lines`.
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
