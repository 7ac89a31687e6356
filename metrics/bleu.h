// BLEU (Papineni et al., "BLEU: a method for automatic evaluation of machine translation", ACL 2002) with the
// figures of sacrebleu 2.6.0 (Post, "A call for clarity in reporting BLEU scores", WMT 2018): the same
// counts, and scores equal to rounding. n-grams have 1 to 4 words; scores and precisions are percent.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "metrics/bleu_tokens.h"

namespace tandem::metrics {

inline constexpr int kBleuOrders = 4;

// Counts of a segment, or summed over those of a corpus; entry i of an array is of n-grams of i + 1 words.
struct BleuStatistics {
  // n-grams of the hypothesis that are in a reference, each at most as often as in the one that has most.
  std::array<std::int64_t, kBleuOrders> matches{};
  std::array<std::int64_t, kBleuOrders> totals{};  // n-grams of the hypothesis
  std::int64_t hypothesis_length = 0;              // words
  std::int64_t reference_length = 0;  // of the closest reference, the shorter of two equally close

  BleuStatistics& operator+=(const BleuStatistics& other);
  friend bool operator==(const BleuStatistics&, const BleuStatistics&) = default;
};

// Throws UserError when there is no reference. An empty reference is one of length 0.
BleuStatistics bleu_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               BleuTokens tokens = BleuTokens::v13a);

// What stands for the precision of an order without matches (Chen and Cherry, "A systematic comparison of
// smoothing techniques for sentence-level BLEU", WMT 2014).
enum class BleuSmoothing : std::uint8_t {
  none,   // 0, and with it the score
  floor,  // `smoothing_value` (0.1) in place of the matches
  add_k,  // `smoothing_value` (1) added to matches and totals of every order but the first, matches or not
  exp,    // 1/2ᵏ in place of the matches of the k-th such order
};

struct BleuOptions {
  BleuTokens tokens = BleuTokens::v13a;
  BleuSmoothing smoothing = BleuSmoothing::exp;
  std::optional<double> smoothing_value = {};  // finite, at least 0; the default of `smoothing` where absent
  // The mean is over the orders that the hypothesis has n-grams of; else a hypothesis of less than four words
  // has the score 0, but for add_k, by which it has full precision there. For scores of single sentences.
  bool effective_order = false;
  // Both sides were brought to lower case before (sacrebleu -lc): the signature says so.
  bool lower_case = false;
};

struct BleuScore {
  double score = 0.0;                            // of 100; 0 where nothing matches
  std::array<double, kBleuOrders> precisions{};  // of 100, smoothed; 0 where nothing matches
  double brevity_penalty = 1.0;
  BleuStatistics statistics;
};

// The score of a corpus from the sum of its statistics; 0 of no segments. Throws UserError for a smoothing
// value that is negative or not finite. `options.tokens` is not looked at.
BleuScore bleu_score(const BleuStatistics& statistics, const BleuOptions& options = {});

// The score of hypotheses against the references of each. Throws UserError when their numbers differ, when a
// hypothesis has no reference, and what bleu_score throws.
BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const std::vector<std::string>> references, const BleuOptions& options = {});

// What sacrebleu prints beside such a score: "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0".
// `references`: of every hypothesis, nullopt where their numbers differ.
std::string bleu_signature(const BleuOptions& options, std::optional<Index> references = 1);

}  // namespace tandem::metrics
