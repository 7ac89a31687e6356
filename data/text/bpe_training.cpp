#include "data/text/bpe_training.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "data/text/vocabulary.h"

namespace tandem::datasets {

namespace {

struct CountedPair {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // that have it, or had it; may repeat
};

// An entry of the heap. Its count is outdated if the pair's is another.
struct RankedPair {
  std::int64_t count;
  std::uint64_t key;
  bool operator<(const RankedPair& other) const {
    return count != other.count ? count < other.count : key > other.key;
  }
};

// Calls `use(key)` for each pair of neighbours.
template <class Use>
void each_pair(const std::vector<std::int32_t>& symbols, const Use& use) {
  for (std::size_t i = 1; i < symbols.size(); ++i) use(pair_key(symbols[i - 1], symbols[i]));
}

// Merges from the left. False if the word has no such pair.
bool merge_in(std::vector<std::int32_t>& symbols, std::int32_t left, std::int32_t right,
              std::int32_t merged) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < symbols.size(); ++from, ++to) {
    const bool pair = symbols[from] == left && from + 1 < symbols.size() && symbols[from + 1] == right;
    symbols[to] = pair ? merged : symbols[from];
    from += pair;
  }
  const bool changed = to < symbols.size();
  symbols.resize(to);
  return changed;
}

}  // namespace

TrainedBpe train_bpe(std::vector<std::string> alphabet, std::vector<CountedWord> words,
                     const BpeTrainingOptions& options) {
  TrainedBpe trained{.pieces = std::move(alphabet), .merges = {}};
  std::vector<std::string>& pieces = trained.pieces;
  TextMap<std::int32_t> ids;
  for (std::size_t i = 0; i < pieces.size(); ++i) ids.emplace(pieces[i], static_cast<std::int32_t>(i));

  std::unordered_map<std::uint64_t, CountedPair> pairs;
  for (std::size_t word = 0; word < words.size(); ++word)
    each_pair(words[word].symbols, [&](std::uint64_t key) {
      CountedPair& pair = pairs[key];
      pair.count += words[word].count;
      const auto number = static_cast<std::uint32_t>(word);
      if (pair.words.empty() || pair.words.back() != number) pair.words.push_back(number);
    });
  std::priority_queue<RankedPair> heap;
  for (const auto& [key, pair] : pairs) heap.push({pair.count, key});

  std::unordered_map<std::uint64_t, std::int64_t> changes;
  while (static_cast<Index>(pieces.size()) < options.size && !heap.empty()) {
    const RankedPair top = heap.top();
    heap.pop();
    const auto found = pairs.find(top.key);
    if (found == pairs.end()) continue;
    if (found->second.count != top.count) {
      if (found->second.count < top.count) heap.push({found->second.count, top.key});
      continue;
    }
    if (top.count < options.min_count || top.count == 0) break;
    const auto left = static_cast<std::int32_t>(top.key >> 32);
    const auto right = static_cast<std::int32_t>(top.key & 0xFFFFFFFFU);
    std::string piece = pieces[static_cast<std::size_t>(left)];
    piece += std::string_view(pieces[static_cast<std::size_t>(right)]).substr(options.prefix.size());
    const auto [place, fresh] = ids.emplace(piece, static_cast<std::int32_t>(pieces.size()));
    const std::int32_t merged = place->second;
    if (fresh) pieces.push_back(std::move(piece));
    trained.merges.push_back({left, right});

    const std::vector<std::uint32_t> changed = std::move(found->second.words);
    pairs.erase(found);
    changes.clear();
    for (const std::uint32_t number : changed) {
      CountedWord& word = words[number];
      const std::vector<std::int32_t> before = word.symbols;
      if (!merge_in(word.symbols, left, right, merged)) continue;
      each_pair(before, [&](std::uint64_t key) { changes[key] -= word.count; });
      each_pair(word.symbols, [&](std::uint64_t key) {
        changes[key] += word.count;
        if (static_cast<std::int32_t>(key >> 32) != merged &&
            static_cast<std::int32_t>(key & 0xFFFFFFFFU) != merged)
          return;
        std::vector<std::uint32_t>& having = pairs[key].words;
        if (having.empty() || having.back() != number) having.push_back(number);
      });
    }
    for (const auto& [key, change] : changes) {
      const auto pair = pairs.find(key);
      if (pair == pairs.end() || change == 0) continue;
      pair->second.count += change;
      if (change > 0) heap.push({pair->second.count, key});
    }
  }
  return trained;
}

}  // namespace tandem::datasets
