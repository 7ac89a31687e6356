// Beam search with the length and coverage penalties of Wu et al., "Google's neural machine translation
// system", 2016, section 7. The model is a function that the search calls once for every position, for all
// hypotheses of all sentences at once; the search knows of no tensors and no devices.
//
// A hypothesis that has come to its end stays in the beam and is extended by the end alone, at
// log-probability 0; a sentence is done when all of its beams have ended, or at the greatest length. Beams
// are chosen by their sums of log-probabilities, of equal ones the lower beam and then the lower token;
// penalties order what has come out. With a width of 1 this is greedy search. Sums of log-probabilities and
// of attention are in double.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/shape.h"

namespace tandem::tasks {

struct BeamOptions {
  Index width = 5;         // hypotheses of a sentence, at least 1
  Index max_length = 80;   // tokens behind the begin, the end included, at least 1; what is longer is cut
  std::int32_t begin = 0;  // the token that the model is given first
  std::int32_t end = 0;    // the token that ends a hypothesis; it may be `begin`
  double length_penalty = 0.6;    // α, finite, at least 0; 0: none
  double coverage_penalty = 0.1;  // β, finite, at least 0; 0: none, and no attention is looked at
};

// Rows are numbered sentence·width + beam; there are always batch·width of them. Ended hypotheses are given
// the end, rows without a hypothesis the end and themselves as parent; what the model says of either is not
// looked at.
struct BeamStep {
  Index position = 0;                    // of `tokens`: 0 for the begin
  std::span<const std::int32_t> tokens;  // [rows], the last of each hypothesis
  // [rows]: the row of the step before that each hypothesis extends, one of the same sentence. Whatever state
  // the model has of a row is that of its parent with `tokens` read. At position 0 it is the row itself.
  std::span<const Index> parents;
};

// What the model says of a step; it lives until the model is called again.
struct BeamPrediction {
  // [rows,V] of the next token: below +inf, never NaN; -inf for a token that must not come. V is the same at
  // every step and above the end.
  std::span<const float> log_probabilities;
  // [rows,S] over the source of each sentence, finite, where there is a coverage penalty. S is the same at
  // every step.
  std::span<const float> attention = {};
};
using BeamModel = std::function<BeamPrediction(const BeamStep&)>;

struct BeamHypothesis {
  std::vector<std::int32_t> tokens;  // without begin and end
  bool ended = false;                // not cut at the greatest length
  double log_probability = 0.0;      // Σ ln p, that of the end included
  double score = 0.0;                // with penalties, cut or not
};

// ((5 + n)/6)^α: what a sum of log-probabilities of n tokens is divided by. n counts begin and end.
double length_penalty(Index n, double alpha);

// What a source word that was never attended is taken to have got, instead of ln 0. At β = 0.1 such a word
// costs 1.38.
inline constexpr double kLeastCoverage = 1e-6;
// Σ_j ln min(max(Σ_t a_tj, kLeastCoverage), 1) of the attention that each source word got over all steps.
double coverage_penalty(std::span<const double> attention_sums);

// The hypotheses of each of `batch` sentences, at most `width` of each, the best first; of equal scores those
// of a greater sum first. The score is Σ ln p/length_penalty(n, α) + β·coverage_penalty.
//
// `source_lengths`: [batch], the words of a sentence that must be covered, the first of S; empty: all S. A
// sentence's result does not depend on the others.
//
// Throws UserError for options out of range, for predictions of other sizes, for a log-probability that is
// NaN or +inf, attention that is not finite, and for a sentence of which no token has a probability above 0;
// naming the sentence and the step. What the model throws passes through.
std::vector<std::vector<BeamHypothesis>> beam_search(const BeamModel& model, Index batch,
                                                     const BeamOptions& options,
                                                     std::span<const Index> source_lengths = {});

}  // namespace tandem::tasks
