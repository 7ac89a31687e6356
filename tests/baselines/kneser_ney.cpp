#include "tests/baselines/kneser_ney.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tandem::baselines {

namespace {

std::uint64_t key(std::uint32_t node, std::int32_t word) {
  return (std::uint64_t{node} << 32) | static_cast<std::uint32_t>(word);
}

}  // namespace

KneserNey::KneserNey(std::span<const std::int32_t> text, Index vocabulary, int order,
                     std::optional<double> discount)
    : vocabulary_(vocabulary), order_(static_cast<std::uint32_t>(order)) {
  require(order >= 1 && order <= 10, "kneser_ney", "an order of {} lies outside [1, 10]", order);
  require(text.size() >= order_, "kneser_ney", "a text of {} words has no n-gram of order {}", text.size(),
          order);
  for (const std::int32_t word : text)
    require(word >= 0 && word < vocabulary, "kneser_ney", "word {} lies outside a vocabulary of {}", word,
            vocabulary);
  count(text);
  set_discounts(discount);
}

std::uint32_t KneserNey::grow(std::uint32_t node, std::int32_t word) {
  const auto next = static_cast<std::uint32_t>(nodes_.size());
  const auto [found, fresh] = children_.try_emplace(key(node, word), next);
  if (fresh) nodes_.push_back({.parent = node, .length = nodes_[node].length + 1});
  return found->second;
}

std::uint32_t KneserNey::child(std::uint32_t node, std::int32_t word) const {
  const auto found = children_.find(key(node, word));
  return found == children_.end() ? 0 : found->second;
}

void KneserNey::count(std::span<const std::int32_t> text) {
  // The n-grams that end at the word before, and at this one, by their length.
  std::vector<std::uint32_t> before{0}, now;
  for (const std::int32_t word : text) {
    now.assign(1, 0);
    for (std::size_t k = 0; k < before.size() && k < order_; ++k) {
      const std::uint32_t node = grow(before[k], word);
      nodes_[node].suffix = now.back();
      now.push_back(node);
    }
    if (now.size() > order_) ++nodes_[now.back()].count;
    before.swap(now);
  }
  for (std::size_t node = 1; node < nodes_.size(); ++node)
    if (nodes_[node].length > 1) ++nodes_[nodes_[node].suffix].count;
  for (std::size_t node = 1; node < nodes_.size(); ++node) {
    if (nodes_[node].count == 0) continue;  // it begins the text and nothing else
    Node& parent = nodes_[nodes_[node].parent];
    parent.followed += nodes_[node].count;
    ++parent.kinds;
  }
}

void KneserNey::set_discounts(std::optional<double> discount) {
  std::vector<std::int64_t> once(order_), twice(order_);
  for (std::size_t node = 1; node < nodes_.size(); ++node) {
    once[nodes_[node].length - 1] += nodes_[node].count == 1;
    twice[nodes_[node].length - 1] += nodes_[node].count == 2;
  }
  for (std::uint32_t k = 0; k < order_; ++k) {
    const auto both = static_cast<double>(once[k] + 2 * twice[k]);
    discounts_.push_back(discount ? *discount : both > 0 ? static_cast<double>(once[k]) / both : 0.0);
  }
}

double KneserNey::probability(std::span<const std::int32_t> history, std::int32_t word) const {
  double p = 1.0 / static_cast<double>(vocabulary_);
  for (std::size_t k = 0; k < order_ && k <= history.size(); ++k) {
    std::uint32_t node = 0;
    for (const std::int32_t earlier : history.last(k)) {
      node = child(node, earlier);
      if (node == 0) return p;
    }
    const Node& seen = nodes_[node];
    if (seen.followed == 0) continue;
    const std::uint32_t whole = child(node, word);
    const double count = whole == 0 ? 0.0 : static_cast<double>(nodes_[whole].count);
    const auto followed = static_cast<double>(seen.followed);
    p = (std::max(count - discounts_[k], 0.0) + discounts_[k] * static_cast<double>(seen.kinds) * p) /
        followed;
  }
  return p;
}

double KneserNey::perplexity(std::span<const std::int32_t> text) const {
  require(text.size() >= 2, "kneser_ney", "a text of {} words predicts nothing", text.size());
  double sum = 0.0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    const std::size_t first = i - std::min<std::size_t>(i, order_ - 1);
    sum -= std::log(probability(text.subspan(first, i - first), text[i]));
  }
  return std::exp(sum / static_cast<double>(text.size() - 1));
}

}  // namespace tandem::baselines
