// BLEU (Papineni et al., "BLEU: a method for automatic evaluation of machine translation", ACL 2002) as in
// sacrebleu 2.6.0 (Post, "A call for clarity in reporting BLEU scores", WMT 2018): equal counts, and scores
// equal up to rounding. n-grams have 1 to 4 words; scores and precisions are percentages.
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

// Counts of a segment, or their sums over a corpus. Entry i of an array counts n-grams of i + 1 words.
struct BleuStatistics {
  // Clipped matches: an n-gram counts at most as often as in the reference that has it most.
  std::array<std::int64_t, kBleuOrders> matches{};
  std::array<std::int64_t, kBleuOrders> totals{};  // n-grams of the hypothesis
  std::int64_t hypothesis_length = 0;              // words
  std::int64_t reference_length = 0;               // of the closest reference; on ties the shorter

  BleuStatistics& operator+=(const BleuStatistics& other);
  friend bool operator==(const BleuStatistics&, const BleuStatistics&) = default;
};

// Throws UserError without references. An empty reference has length 0.
BleuStatistics bleu_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               BleuTokens tokens = BleuTokens::v13a);

// Smoothing of the precision of an order without matches (Chen and Cherry, "A systematic comparison of
// smoothing techniques for sentence-level BLEU", WMT 2014).
enum class BleuSmoothing : std::uint8_t {
  none,   // the precision is 0, and so is the score
  floor,  // `smoothing_value` (0.1) replaces the matches
  add_k,  // `smoothing_value` (1) is added to matches and totals of every order but the first, matches or not
  exp,    // 1/2ᵏ replaces the matches of the k-th such order
};

struct BleuOptions {
  BleuTokens tokens = BleuTokens::v13a;
  BleuSmoothing smoothing = BleuSmoothing::exp;
  std::optional<double> smoothing_value = {};  // finite, at least 0; absent: the default of `smoothing`
  // The mean covers only orders for which the hypothesis has n-grams, for scores of single sentences.
  // Otherwise a hypothesis of fewer than four words scores 0, except with add_k, which gives full precision.
  bool effective_order = false;
  // Both sides were converted to lower case before (sacrebleu -lc); the signature says so.
  bool lower_case = false;
};

struct BleuScore {
  double score = 0.0;                            // percent; 0 without matches
  std::array<double, kBleuOrders> precisions{};  // percent, smoothed; 0 without matches
  double brevity_penalty = 1.0;
  BleuStatistics statistics;
};

// The score of a corpus from its summed statistics; 0 without segments. Throws UserError for a smoothing
// value that is negative or not finite. `options.tokens` is ignored.
BleuScore bleu_score(const BleuStatistics& statistics, const BleuOptions& options = {});

// The score of hypotheses against their references. Throws UserError when the two counts differ or a
// hypothesis has no reference, and as bleu_score does.
BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const std::vector<std::string>> references, const BleuOptions& options = {});

// The signature of such a score in sacrebleu: "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0".
// `references` is the number per hypothesis; nullopt if it varies.
std::string bleu_signature(const BleuOptions& options, std::optional<Index> references = 1);

}  // namespace tandem::metrics
