// Interpolated Kneser–Ney (Kneser and Ney 1995, in the form of Chen and Goodman 1998): the n-gram model that
// a neural language model has to beat on the same text, vocabulary and split.
//
// With c the counts of the highest order, N₊(•w) the different words seen before w and N₊(h•) those seen
// after a history h, in the order in hand:
//
//   P(w|h) = max(c(hw) − D, 0) / c(h·) + D N₊(h•) / c(h·) · P(w|h without its first word)
//
// Lower orders take N₊(•hw) for c(hw); under the first stands 1 / V. D = n₁ / (n₁ + 2 n₂) of each order, n₁
// and n₂ the n-grams that it counts once and twice. An unseen history passes to the next order unchanged.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/shape.h"

namespace tandem::baselines {

class KneserNey {
 public:
  // Of a text of words in [0, vocabulary), with n-grams of up to `order` words. `discount`: that of every
  // order, in place of its own. Throws UserError on an order outside [1, 10], a word outside the vocabulary,
  // or a text shorter than the order.
  KneserNey(std::span<const std::int32_t> text, Index vocabulary, int order,
            std::optional<double> discount = {});

  // Of `word` after `history`, of which the last order − 1 words count.
  double probability(std::span<const std::int32_t> history, std::int32_t word) const;
  // exp of the mean of −ln P of every word of a text but the first, each after those before it. Throws
  // UserError on a text of fewer than two words.
  double perplexity(std::span<const std::int32_t> text) const;
  // By order, from the first.
  const std::vector<double>& discounts() const { return discounts_; }

 private:
  // An n-gram. Number 0 is the empty one.
  struct Node {
    std::uint32_t parent = 0;   // without its last word
    std::uint32_t suffix = 0;   // without its first word
    std::uint32_t length = 0;   // words
    std::int64_t count = 0;     // in the text for the highest order, else the different words seen before it
    std::int64_t followed = 0;  // sum of the counts of its children
    std::int64_t kinds = 0;     // its children that count
  };

  std::uint32_t grow(std::uint32_t node, std::int32_t word);
  std::uint32_t child(std::uint32_t node, std::int32_t word) const;  // 0: there is none
  void count(std::span<const std::int32_t> text);
  void set_discounts(std::optional<double> discount);

  Index vocabulary_;
  std::uint32_t order_;
  std::vector<Node> nodes_{Node{}};
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // by node and word
  std::vector<double> discounts_;
};

}  // namespace tandem::baselines
