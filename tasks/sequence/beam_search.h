// Beam search with the length and coverage penalties of Wu et al., "Google's neural machine translation
// system", 2016, section 7. The search calls the model, a function, once per position for all hypotheses of
// all sentences; it is independent of tensors and devices.
//
// A finished hypothesis stays in the beam, extended by end tokens at log-probability 0; a sentence is done
// when all of its beams have ended, or at the maximum length. Beams are ranked by their sums of
// log-probabilities, on ties the lower beam and then the lower token first; penalties only order the results.
// A width of 1 is greedy search. Sums of log-probabilities and of attention are in double.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/shape.h"

namespace tandem::tasks {

struct BeamOptions {
  Index width = 5;         // hypotheses per sentence, at least 1
  Index max_length = 80;   // tokens after begin, including the end, at least 1; longer hypotheses are cut
  std::int32_t begin = 0;  // first token for the model
  std::int32_t end = 0;    // token that ends a hypothesis; may equal `begin`
  double length_penalty = 0.6;    // α, finite, at least 0; 0: none
  double coverage_penalty = 0.1;  // β, finite, at least 0; 0: none, attention is unused
};

// Rows are numbered sentence·width + beam; there are always batch·width. Ended hypotheses get the end token,
// rows without a hypothesis the end token and themselves as parent; predictions for both are ignored.
struct BeamStep {
  Index position = 0;                    // of `tokens`: 0 for the begin
  std::span<const std::int32_t> tokens;  // [rows], the last of each hypothesis
  // [rows]: the row in the step before that each hypothesis extends, in the same sentence. The model's state
  // of a row must be its parent's state advanced by `tokens`. At position 0 it is the row itself.
  std::span<const Index> parents;
};

// The model's output for a step; valid until the next call.
struct BeamPrediction {
  // [rows,V] for the next token: below +inf, never NaN; -inf for a forbidden token. V is the same at every
  // step and above the end token.
  std::span<const float> log_probabilities;
  // [rows,S] over each sentence's source, finite; needed with a coverage penalty. S is the same at every
  // step.
  std::span<const float> attention = {};
};
using BeamModel = std::function<BeamPrediction(const BeamStep&)>;

struct BeamHypothesis {
  std::vector<std::int32_t> tokens;  // without begin and end
  bool ended = false;                // not cut at the maximum length
  double log_probability = 0.0;      // Σ ln p, including the end
  double score = 0.0;                // with penalties, cut or not
};

// ((5 + n)/6)^α: divisor of the sum of log-probabilities of n tokens, including begin and end.
double length_penalty(Index n, double alpha);

// Lower bound on the summed attention of a source word, which avoids ln 0. At β = 0.1 an unattended word
// costs 1.38.
inline constexpr double kLeastCoverage = 1e-6;
// Σ_j ln min(max(Σ_t a_tj, kLeastCoverage), 1) over the summed attention of each source word.
double coverage_penalty(std::span<const double> attention_sums);

// The hypotheses of each of `batch` sentences, at most `width` each, the best first; on equal scores the
// greater sum first. The score is Σ ln p/length_penalty(n, α) + β·coverage_penalty.
//
// `source_lengths`: [batch], the number of leading source words to cover; empty: all S. Sentences are
// independent of each other.
//
// Throws UserError, naming sentence and step, for options out of range, predictions of other sizes, a
// log-probability that is NaN or +inf, non-finite attention, and for a sentence in which no token has a
// probability above 0. Exceptions of the model pass through.
std::vector<std::vector<BeamHypothesis>> beam_search(const BeamModel& model, Index batch,
                                                     const BeamOptions& options,
                                                     std::span<const Index> source_lengths = {});

}  // namespace tandem::tasks
