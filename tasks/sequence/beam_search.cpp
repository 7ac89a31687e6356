#include "tasks/sequence/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace tandem::tasks {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr const char* kBeamSearch = "beam_search";

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// A hypothesis in its row. Rows of length -1 are unused: their sentence has fewer continuations than beams.
struct Beam {
  double sum = 0.0;   // of log-probabilities
  Index length = -1;  // tokens after the begin token, including the end
  bool ended = false;

  bool used() const { return length >= 0; }
  bool open() const { return used() && !ended; }
};

// A row's token and its parent row in the step before.
struct Link {
  Index parent;
  std::int32_t token;
};

struct Candidate {
  double sum;
  Link link;
};

// A strict total order over the candidates of a sentence.
bool better(const Candidate& a, const Candidate& b) {
  if (a.sum != b.sum) return a.sum > b.sum;
  return std::pair(a.link.parent, a.link.token) < std::pair(b.link.parent, b.link.token);
}

// The n best of the offered candidates.
class Best {
 public:
  explicit Best(Index most) : most_(at(most)) {}

  // Candidates below this are rejected.
  double least() const {
    return heap_.size() < most_ ? -std::numeric_limits<double>::infinity() : heap_.front().sum;
  }
  void offer(const Candidate& candidate) {
    if (heap_.size() == most_) {
      if (!better(candidate, heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end(), better);
      heap_.pop_back();
    }
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end(), better);
  }
  std::vector<Candidate> sorted() && {
    std::sort(heap_.begin(), heap_.end(), better);
    return std::move(heap_);
  }

 private:
  std::size_t most_;
  std::vector<Candidate> heap_;  // the worst in front
};

class Search {
 public:
  Search(Index batch, const BeamOptions& options, std::span<const Index> source_lengths)
      : options_(options), batch_(batch), rows_(batch * options.width), source_lengths_(source_lengths) {
    beams_.resize(at(rows_));
    for (Index sentence = 0; sentence < batch; ++sentence) beams_[at(sentence * options.width)].length = 0;
    tokens_.assign(at(rows_), options.begin);
    parents_.resize(at(rows_));
    std::iota(parents_.begin(), parents_.end(), Index{0});
  }

  bool done() const {
    return std::none_of(beams_.begin(), beams_.end(), [](const Beam& beam) { return beam.open(); });
  }
  void advance(const BeamModel& model);
  std::vector<BeamHypothesis> hypotheses(Index sentence) const;

 private:
  void check(const BeamPrediction& prediction);
  void add_attention(std::span<const float> attention);
  void extend(Index sentence, std::span<const float> log_probabilities);
  void offer_tokens(Index row, std::span<const float> log_probabilities, Best& best) const;
  [[noreturn]] void refuse(Index row, std::size_t token, float log_probability) const;
  std::vector<std::int32_t> tokens_of(Index row) const;
  double coverage_of(Index row) const;
  bool covers() const { return options_.coverage_penalty > 0.0; }

  BeamOptions options_;
  Index batch_, rows_;
  std::span<const Index> source_lengths_;
  Index position_ = 0;
  Index vocabulary_ = 0, source_ = 0;  // V, S; 0 before the first step
  // Per row.
  std::vector<Beam> beams_, next_beams_;
  std::vector<std::int32_t> tokens_;
  std::vector<Index> parents_;
  std::vector<double> attention_, next_attention_;  // [rows,S], summed over steps
  std::vector<std::vector<Link>> history_;          // [steps][rows]
};

void Search::advance(const BeamModel& model) {
  const BeamPrediction prediction = model({.position = position_, .tokens = tokens_, .parents = parents_});
  check(prediction);
  if (covers()) add_attention(prediction.attention);
  next_beams_.assign(at(rows_), {});
  std::fill(tokens_.begin(), tokens_.end(), options_.end);
  std::iota(parents_.begin(), parents_.end(), Index{0});
  for (Index sentence = 0; sentence < batch_; ++sentence) extend(sentence, prediction.log_probabilities);

  std::vector<Link>& links = history_.emplace_back();
  for (Index row = 0; row < rows_; ++row) links.push_back({parents_[at(row)], tokens_[at(row)]});
  std::swap(beams_, next_beams_);
  if (covers()) {
    next_attention_.resize(attention_.size());
    for (Index row = 0; row < rows_; ++row)
      std::copy_n(attention_.begin() + parents_[at(row)] * source_, source_,
                  next_attention_.begin() + row * source_);
    std::swap(attention_, next_attention_);
  }
  ++position_;
}

void Search::check(const BeamPrediction& prediction) {
  const auto size = static_cast<Index>(prediction.log_probabilities.size());
  const Index vocabulary = vocabulary_ > 0 ? vocabulary_ : size / rows_;
  require(size == rows_ * vocabulary && vocabulary > options_.end, kBeamSearch,
          "step {}: log-probabilities must be [{} rows,V] with V above the end {}{}, got {} values",
          position_, rows_, options_.end,
          vocabulary_ > 0 ? fmt::format(" and {} as before", vocabulary_) : "", size);
  vocabulary_ = vocabulary;
  if (!covers()) return;
  const auto weights = static_cast<Index>(prediction.attention.size());
  const Index source = position_ > 0 ? source_ : weights / rows_;
  require(weights == rows_ * source && (position_ > 0 || source > 0), kBeamSearch,
          "step {}: a coverage penalty needs attention [{} rows,S]{}, got {} values; coverage_penalty = 0 "
          "needs none",
          position_, rows_, position_ > 0 ? fmt::format(" with S {} as before", source_) : "", weights);
  for (std::size_t sentence = 0; sentence < source_lengths_.size(); ++sentence)
    require(source_lengths_[sentence] <= source, kBeamSearch,
            "sentence {} has {} source words, but attention covers only {}", sentence,
            source_lengths_[sentence], source);
  source_ = source;
}

void Search::add_attention(std::span<const float> attention) {
  attention_.resize(attention.size());
  for (Index row = 0; row < rows_; ++row) {
    if (!beams_[at(row)].open()) continue;
    for (Index word = row * source_; word < (row + 1) * source_; ++word) {
      const float weight = attention[at(word)];
      require(std::isfinite(weight), kBeamSearch,
              "sentence {}, beam {}, step {}: attention of source word {} is {}", row / options_.width,
              row % options_.width, position_, word - row * source_, weight);
      attention_[at(word)] += weight;
    }
  }
}

void Search::offer_tokens(Index row, std::span<const float> log_probabilities, Best& best) const {
  const double sum = beams_[at(row)].sum;
  const auto values = log_probabilities.subspan(at(row * vocabulary_), at(vocabulary_));
  for (std::size_t token = 0; token < values.size(); ++token) {
    const float value = values[token];
    if (!(value < kInfinity)) refuse(row, token, value);
    if (value == -kInfinity || sum + value < best.least()) continue;
    best.offer({sum + value, {row, static_cast<std::int32_t>(token)}});
  }
}

void Search::refuse(Index row, std::size_t token, float value) const {
  throw UserError(kBeamSearch,
                  fmt::format("sentence {}, beam {}, step {}: the log-probability of token {} is {}; the "
                              "model's weights or inputs are not finite, or its log-softmax overflowed",
                              row / options_.width, row % options_.width, position_, token, value));
}

void Search::extend(Index sentence, std::span<const float> log_probabilities) {
  const Index first = sentence * options_.width;
  Best best(options_.width);
  for (Index row = first; row < first + options_.width; ++row) {
    const Beam& beam = beams_[at(row)];
    if (beam.open()) offer_tokens(row, log_probabilities, best);
    if (beam.ended) best.offer({beam.sum, {row, options_.end}});
  }
  const std::vector<Candidate> candidates = std::move(best).sorted();
  require(!candidates.empty(), kBeamSearch, "sentence {}, step {}: no token has a probability above 0",
          sentence, position_);
  Index row = first;
  for (const auto& [sum, link] : candidates) {
    const Beam& parent = beams_[at(link.parent)];
    next_beams_[at(row)] = {sum, parent.length + (parent.ended ? 0 : 1), link.token == options_.end};
    tokens_[at(row)] = link.token;
    parents_[at(row++)] = link.parent;
  }
}

std::vector<std::int32_t> Search::tokens_of(Index row) const {
  const Beam& beam = beams_[at(row)];
  std::vector<std::int32_t> tokens(history_.size());
  for (std::size_t step = history_.size(); step-- > 0;) {
    tokens[step] = history_[step][at(row)].token;
    row = history_[step][at(row)].parent;
  }
  tokens.resize(at(beam.length - (beam.ended ? 1 : 0)));
  return tokens;
}

double Search::coverage_of(Index row) const {
  const Index words = source_lengths_.empty() ? source_ : source_lengths_[at(row / options_.width)];
  return coverage_penalty(std::span(attention_).subspan(at(row * source_), at(words)));
}

std::vector<BeamHypothesis> Search::hypotheses(Index sentence) const {
  std::vector<BeamHypothesis> result;
  for (Index row = sentence * options_.width; row < (sentence + 1) * options_.width; ++row) {
    const Beam& beam = beams_[at(row)];
    if (!beam.used()) continue;
    double score = beam.sum / length_penalty(beam.length + 1, options_.length_penalty);
    if (covers()) score += options_.coverage_penalty * coverage_of(row);
    result.push_back({tokens_of(row), beam.ended, beam.sum, score});
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const BeamHypothesis& a, const BeamHypothesis& b) { return a.score > b.score; });
  return result;
}

void check_options(Index batch, const BeamOptions& options, std::span<const Index> source_lengths) {
  require(batch >= 0, kBeamSearch, "a batch must have at least 0 sentences, got {}", batch);
  require(options.width >= 1, kBeamSearch, "the beam width must be at least 1 (1: greedy), got {}",
          options.width);
  require(options.max_length >= 1, kBeamSearch, "max_length must be at least 1, got {}", options.max_length);
  require(options.begin >= 0 && options.end >= 0, kBeamSearch, "begin and end must be tokens, got {} and {}",
          options.begin, options.end);
  require(std::isfinite(options.length_penalty) && options.length_penalty >= 0.0, kBeamSearch,
          "length_penalty must be a finite number of at least 0 (0: none), got {}", options.length_penalty);
  require(std::isfinite(options.coverage_penalty) && options.coverage_penalty >= 0.0, kBeamSearch,
          "coverage_penalty must be a finite number of at least 0 (0: none), got {}",
          options.coverage_penalty);
  require(source_lengths.empty() || static_cast<Index>(source_lengths.size()) == batch, kBeamSearch,
          "source_lengths must have an entry for each of {} sentences, or none, got {}", batch,
          source_lengths.size());
  for (const Index length : source_lengths)
    require(length >= 0, kBeamSearch, "the length of a source must be at least 0, got {}", length);
}

}  // namespace

double length_penalty(Index n, double alpha) { return std::pow((5.0 + static_cast<double>(n)) / 6.0, alpha); }

double coverage_penalty(std::span<const double> attention_sums) {
  double sum = 0.0;
  for (const double attention : attention_sums) sum += std::log(std::clamp(attention, kLeastCoverage, 1.0));
  return sum;
}

std::vector<std::vector<BeamHypothesis>> beam_search(const BeamModel& model, Index batch,
                                                     const BeamOptions& options,
                                                     std::span<const Index> source_lengths) {
  check_options(batch, options, source_lengths);
  Search search(batch, options, source_lengths);
  for (Index step = 0; step < options.max_length && !search.done(); ++step) search.advance(model);
  std::vector<std::vector<BeamHypothesis>> result;
  for (Index sentence = 0; sentence < batch; ++sentence) result.push_back(search.hypotheses(sentence));
  return result;
}

}  // namespace tandem::tasks
