#include "data/text/pair_merger.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "core/error.h"
#include "data/text/vocabulary.h"

namespace tandem::datasets {

namespace {

// A merge that was possible when it was found; neighbours may have merged since.
struct Candidate {
  std::int32_t rank, position, left, right;
  bool operator>(const Candidate& other) const {
    return std::tie(rank, position) > std::tie(other.rank, other.position);
  }
};

}  // namespace

PairMerger::PairMerger(const BytePairs& pairs, const std::string& where) {
  TextMap<std::int32_t> ids;
  for (std::size_t id = 0; id < pairs.tokens.size(); ++id)
    if (!std::ranges::binary_search(pairs.special, static_cast<std::int32_t>(id)))
      ids.emplace(pairs.tokens[id], static_cast<std::int32_t>(id));
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(std::string(1, static_cast<char>(byte)));
    require(
        found != ids.end(), where,
        "no token is the byte 0x{:02x} alone; train the tokenizer with all 256 bytes in its initial alphabet",
        byte);
    id_of_byte_[static_cast<std::size_t>(byte)] = found->second;
  }
  if (!pairs.merges_by_id) {
    merges_.reserve(pairs.merges.size());
    std::string result;
    for (const auto& [left, right] : pairs.merges) {
      result = pairs.tokens[static_cast<std::size_t>(left)];
      result += pairs.tokens[static_cast<std::size_t>(right)];
      const auto rank = static_cast<std::int32_t>(merges_.size());
      merges_.emplace(pair_key(left, right), Result{rank, ids.at(result)});
    }
    return;
  }
  for (const auto& [token, id] : ids) {
    const std::string_view bytes = token;
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const auto left = ids.find(bytes.substr(0, cut)), right = ids.find(bytes.substr(cut));
      if (left != ids.end() && right != ids.end())
        merges_.emplace(pair_key(left->second, right->second), Result{id, id});
    }
  }
}

const PairMerger::Result* PairMerger::merged(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void PairMerger::append(std::string_view piece, std::vector<std::int32_t>& ids) const {
  struct Symbol {
    std::int32_t id, before, after;  // neighbours' positions; id -1: merged into the one before
  };
  const auto count = static_cast<std::int32_t>(piece.size());
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (std::int32_t i = 0; i < count; ++i)
    symbols.push_back(
        {id_of_byte_[static_cast<unsigned char>(piece[static_cast<std::size_t>(i)])], i - 1, i + 1});
  const auto at = [&](std::int32_t position) -> Symbol& {
    return symbols[static_cast<std::size_t>(position)];
  };

  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto offer = [&](std::int32_t position) {
    if (position < 0 || at(position).after >= count) return;
    const std::int32_t left = at(position).id, right = at(at(position).after).id;
    if (const Result* const result = merged(left, right))
      candidates.push({result->rank, position, left, right});
  };
  for (std::int32_t i = 0; i + 1 < count; ++i) offer(i);
  while (!candidates.empty()) {
    const Candidate next = candidates.top();
    candidates.pop();
    Symbol& left = at(next.position);
    if (left.id != next.left || left.after >= count || at(left.after).id != next.right) continue;
    Symbol& right = at(left.after);
    left.id = merged(next.left, next.right)->id;
    right.id = -1;
    left.after = right.after;
    if (left.after < count) at(left.after).before = next.position;
    offer(left.before);
    offer(next.position);
  }
  for (std::int32_t i = 0; i < count; i = at(i).after) ids.push_back(at(i).id);
}

}  // namespace tandem::datasets
