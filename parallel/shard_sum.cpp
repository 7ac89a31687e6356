#include "parallel/shard_sum.h"

#include <algorithm>
#include <optional>

#include "parallel/arithmetic.h"

namespace tandem::parallel {

template <class T>
ShardSum<T>::ShardSum(int shards, Range block, std::size_t length)
    : shards_(shards),
      block_(block),
      length_(length),
      next_(static_cast<int>(block.first)),
      last_(static_cast<int>(block.last)) {
  require(shards > 0 && block.first <= block.last && block.last <= static_cast<std::size_t>(shards), "shards",
          "{} to {} is not a block of {} shards", block.first, block.last, shards);
}

template <class T>
void ShardSum<T>::add(std::span<const T> shard) {
  require(!complete(), "shards", "all shards {} to {} were already added", block_.first, block_.last);
  require(shard.size() == length_, "shards", "shard {} has {} elements, expected {}", next_, shard.size(),
          length_);
  ShardNode node{next_++, 1};
  std::vector<T> sum;
  const T* values = shard.data();
  while (!nodes_.empty()) {
    const std::optional<ShardNode> parent = parent_of(shards_, nodes_.back(), node);
    if (!parent) break;
    std::vector<T> left = std::move(sums_.back());
    nodes_.pop_back();
    sums_.pop_back();
    parallel::add(left.data(), values, left.data(), length_);
    if (node.count > 1) spare_.push_back(std::move(sum));
    sum = std::move(left);
    values = sum.data();
    node = *parent;
  }
  if (node.count == 1) {
    if (!spare_.empty()) {
      sum = std::move(spare_.back());
      spare_.pop_back();
    }
    sum.assign(shard.begin(), shard.end());
  }
  nodes_.push_back(node);
  sums_.push_back(std::move(sum));
}

template <class T>
void ShardSum<T>::clear() {
  next_ = static_cast<int>(block_.first);
  nodes_.clear();
  for (std::vector<T>& sum : sums_) spare_.push_back(std::move(sum));
  sums_.clear();
}

namespace {

std::vector<ShardNode> nodes_of_rank(int shards, int ranks, int rank) {
  const Range block = part_of_rank(static_cast<std::size_t>(shards), ranks, rank);
  return largest_nodes(shards, static_cast<int>(block.first), static_cast<int>(block.last));
}

// Adds the nodes, `length` elements each at i · length of `values`, into the root at 0.
template <class T>
void add_nodes(int shards, std::span<const ShardNode> nodes, T* values, std::size_t length) {
  struct Part {
    ShardNode node;
    T* values;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Part part{nodes[i], values + i * length};
    while (!parts.empty()) {
      const std::optional<ShardNode> parent = parent_of(shards, parts.back().node, part.node);
      if (!parent) break;
      T* const left = parts.back().values;
      add(left, part.values, left, length);
      part = {*parent, left};
      parts.pop_back();
    }
    parts.push_back(part);
  }
  ensure(parts.size() == 1 && parts[0].values == values, "shards",
         "the nodes of all ranks leave {} sums of {} shards", parts.size(), shards);
}

// Elements of each rank's part that are added in a round.
std::vector<Range> ranges_of_round(std::span<const std::size_t> counts, std::size_t round, std::size_t step) {
  std::vector<Range> ranges;
  std::size_t first = 0;
  for (const std::size_t count : counts) {
    const std::size_t begun = std::min(count, round * step), ended = std::min(count, begun + step);
    ranges.push_back({first + begun, first + ended});
    first += count;
  }
  return ranges;
}

}  // namespace

template <class T>
void reduce_scatter_shards(Communicator& ranks, const ShardSum<T>& sum, std::span<const std::size_t> counts,
                           std::span<T> own, double deadline_s, std::size_t piece) {
  require(sum.complete(), "shards", "shards of {} to {} are missing", sum.block().first, sum.block().last);
  const int size = ranks.size(), rank = ranks.rank();
  const Range block = part_of_rank(static_cast<std::size_t>(sum.shards()), size, rank);
  require(sum.block() == block, "shards", "rank {} of {} owns shards {} to {} of {}, not {} to {}", rank,
          size, block.first, block.last, sum.shards(), sum.block().first, sum.block().last);
  std::size_t total = 0, longest = 0;
  for (const std::size_t count : counts) {
    total += count;
    longest = std::max(longest, count);
  }
  const auto self = static_cast<std::size_t>(rank);
  require(
      counts.size() == static_cast<std::size_t>(size) && total == sum.length() && own.size() == counts[self],
      "shards", "{} counts with the sum {}, and {} own elements, do not fit {} ranks and {} elements",
      counts.size(), total, own.size(), size, sum.length());
  if (size == 1) {
    std::copy(sum.sums()[0].begin(), sum.sums()[0].end(), own.begin());
    return;
  }
  std::vector<ShardNode> nodes;       // of all ranks, in order
  std::vector<std::size_t> nodes_of;  // how many each rank has
  for (int other = 0; other < size; ++other) {
    const std::vector<ShardNode> theirs = nodes_of_rank(sum.shards(), size, other);
    nodes.insert(nodes.end(), theirs.begin(), theirs.end());
    nodes_of.push_back(theirs.size());
  }
  const std::size_t step = std::max<std::size_t>(1, piece / static_cast<std::size_t>(size));
  std::vector<T> outgoing, incoming;
  std::size_t done = 0;
  for (std::size_t round = 0; round * step < longest; ++round) {
    const std::vector<Range> ranges = ranges_of_round(counts, round, step);
    const std::size_t length = ranges[self].count();
    std::vector<std::size_t> sent, received;
    outgoing.clear();
    for (std::size_t other = 0; other < ranges.size(); ++other) {
      sent.push_back(ranges[other].count() * sum.nodes().size());
      received.push_back(length * nodes_of[other]);
      for (const std::vector<T>& values : sum.sums()) {
        const T* const first = values.data();
        outgoing.insert(outgoing.end(), first + ranges[other].first, first + ranges[other].last);
      }
    }
    incoming.resize(length * nodes.size());
    ranks.all_to_all(outgoing, sent, incoming, received, deadline_s);
    add_nodes(sum.shards(), nodes, incoming.data(), length);
    std::copy_n(incoming.begin(), length, own.begin() + static_cast<std::ptrdiff_t>(done));
    done += length;
  }
}

template <class T>
void all_reduce_shards(Communicator& ranks, const ShardSum<T>& sum, std::span<T> result, double deadline_s,
                       std::size_t piece) {
  require(result.size() == sum.length(), "shards", "the result has {} elements, the shards {}", result.size(),
          sum.length());
  const std::vector<std::size_t> counts = counts_of_ranks(sum.length(), ranks.size());
  const Range part = part_of_rank(sum.length(), ranks.size(), ranks.rank());
  const std::span<T> own = result.subspan(part.first, part.count());
  reduce_scatter_shards(ranks, sum, counts, own, deadline_s, piece);
  ranks.all_gather(own, counts, result, deadline_s);
}

template class ShardSum<float>;
template class ShardSum<double>;
template void reduce_scatter_shards(Communicator&, const ShardSum<float>&, std::span<const std::size_t>,
                                    std::span<float>, double, std::size_t);
template void reduce_scatter_shards(Communicator&, const ShardSum<double>&, std::span<const std::size_t>,
                                    std::span<double>, double, std::size_t);
template void all_reduce_shards(Communicator&, const ShardSum<float>&, std::span<float>, double, std::size_t);
template void all_reduce_shards(Communicator&, const ShardSum<double>&, std::span<double>, double,
                                std::size_t);

}  // namespace tandem::parallel
