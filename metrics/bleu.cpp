#include "metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include "core/error.h"

namespace tandem::metrics {

namespace {

// The version that this file reproduces.
constexpr const char* kSacrebleuVersion = "2.6.0";

using Words = std::vector<std::int32_t>;
using Ngram = std::array<std::int32_t, kBleuOrders>;  // word ids, kNoWord behind the last
using Ngrams = std::map<Ngram, std::int64_t>;
constexpr std::int32_t kNoWord = -1;

// Assigns ids to words in order of first appearance.
class Numbering {
 public:
  Words numbered(const std::vector<std::string>& words) {
    Words result;
    result.reserve(words.size());
    for (const std::string& word : words)
      result.push_back(numbers_.try_emplace(word, static_cast<std::int32_t>(numbers_.size())).first->second);
    return result;
  }

 private:
  std::unordered_map<std::string, std::int32_t> numbers_;
};

int order_of(const Ngram& ngram) {
  return static_cast<int>(std::find(ngram.begin(), ngram.end(), kNoWord) - ngram.begin());
}

Ngrams ngrams_of(const Words& words) {
  Ngrams counts;
  for (std::size_t first = 0; first < words.size(); ++first) {
    Ngram ngram;
    ngram.fill(kNoWord);
    for (std::size_t i = 0; i < kBleuOrders && first + i < words.size(); ++i) {
      ngram[i] = words[first + i];
      ++counts[ngram];
    }
  }
  return counts;
}

double default_value(BleuSmoothing smoothing) {
  if (smoothing == BleuSmoothing::floor) return 0.1;
  return smoothing == BleuSmoothing::add_k ? 1.0 : 0.0;
}

// Throws UserError for an invalid value.
double smoothing_value(const BleuOptions& options) {
  const double value = options.smoothing_value.value_or(default_value(options.smoothing));
  require(std::isfinite(value) && value >= 0.0, "bleu",
          "the smoothing value must be a finite number of at least 0, got {}", value);
  return value;
}

double brevity_penalty(const BleuStatistics& counts) {
  if (counts.hypothesis_length >= counts.reference_length) return 1.0;
  if (counts.hypothesis_length == 0) return 0.0;
  const auto hypothesis = static_cast<double>(counts.hypothesis_length);
  return std::exp(1.0 - static_cast<double>(counts.reference_length) / hypothesis);
}

}  // namespace

BleuStatistics& BleuStatistics::operator+=(const BleuStatistics& other) {
  for (std::size_t i = 0; i < kBleuOrders; ++i) {
    matches[i] += other.matches[i];
    totals[i] += other.totals[i];
  }
  hypothesis_length += other.hypothesis_length;
  reference_length += other.reference_length;
  return *this;
}

BleuStatistics bleu_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               BleuTokens tokens) {
  require(!references.empty(), "bleu", "a hypothesis needs at least one reference, got none");
  Numbering numbering;
  const Words words = numbering.numbered(bleu_tokens(hypothesis, tokens));
  BleuStatistics result{.hypothesis_length = static_cast<std::int64_t>(words.size()), .reference_length = -1};
  const auto distance = [&](std::int64_t length) { return std::abs(length - result.hypothesis_length); };
  Ngrams most;  // greatest counts in one reference
  for (const std::string& reference : references) {
    const Words other = numbering.numbered(bleu_tokens(reference, tokens));
    for (const auto& [ngram, count] : ngrams_of(other)) {
      std::int64_t& greatest = most[ngram];
      greatest = std::max(greatest, count);
    }
    const auto length = static_cast<std::int64_t>(other.size());
    const std::int64_t closest = result.reference_length;
    if (closest < 0 || distance(length) < distance(closest) ||
        (distance(length) == distance(closest) && length < closest))
      result.reference_length = length;
  }
  for (const auto& [ngram, count] : ngrams_of(words)) {
    const auto order = static_cast<std::size_t>(order_of(ngram) - 1);
    const auto found = most.find(ngram);
    result.totals[order] += count;
    if (found != most.end()) result.matches[order] += std::min(count, found->second);
  }
  return result;
}

BleuScore bleu_score(const BleuStatistics& statistics, const BleuOptions& options) {
  const double value = smoothing_value(options);
  BleuScore result{.brevity_penalty = brevity_penalty(statistics), .statistics = statistics};
  if (std::all_of(statistics.matches.begin(), statistics.matches.end(),
                  [](auto count) { return count == 0; }))
    return result;
  double halved = 1.0;
  std::size_t orders = kBleuOrders;
  for (std::size_t i = 0; i < kBleuOrders; ++i) {
    const double added = options.smoothing == BleuSmoothing::add_k && i > 0 ? value : 0.0;
    double matches = static_cast<double>(statistics.matches[i]) + added;
    const double total = static_cast<double>(statistics.totals[i]) + added;
    if (total == 0.0) break;
    if (options.effective_order) orders = i + 1;
    if (matches == 0.0 && options.smoothing == BleuSmoothing::exp) matches = halved /= 2.0;
    if (matches == 0.0 && options.smoothing == BleuSmoothing::floor) matches = value;
    result.precisions[i] = 100.0 * matches / total;
  }
  double sum = 0.0;  // -inf where a precision is 0
  for (std::size_t i = 0; i < orders; ++i) sum += std::log(result.precisions[i]);
  result.score = result.brevity_penalty * std::exp(sum / static_cast<double>(orders));
  return result;
}

BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const std::vector<std::string>> references, const BleuOptions& options) {
  require(hypotheses.size() == references.size(), "bleu",
          "every hypothesis needs references, got {} hypotheses and references for {}", hypotheses.size(),
          references.size());
  BleuStatistics sum;
  for (std::size_t i = 0; i < hypotheses.size(); ++i)
    sum += bleu_statistics(hypotheses[i], references[i], options.tokens);
  return bleu_score(sum, options);
}

std::string bleu_signature(const BleuOptions& options, std::optional<Index> references) {
  const double value = smoothing_value(options);
  std::string smoothing;
  switch (options.smoothing) {
    case BleuSmoothing::none:
      smoothing = "none";
      break;
    case BleuSmoothing::floor:
      smoothing = fmt::format("floor[{:.2f}]", value);
      break;
    case BleuSmoothing::add_k:
      smoothing = fmt::format("add-k[{:.2f}]", value);
      break;
    case BleuSmoothing::exp:
      smoothing = "exp";
      break;
  }
  return fmt::format("nrefs:{}|case:{}|eff:{}|tok:{}|smooth:{}|version:{}",
                     references ? std::to_string(*references) : "var", options.lower_case ? "lc" : "mixed",
                     options.effective_order ? "yes" : "no", name_of(options.tokens), smoothing,
                     kSacrebleuVersion);
}

}  // namespace tandem::metrics
