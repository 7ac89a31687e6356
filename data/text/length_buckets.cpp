#include "data/text/length_buckets.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/random.h"
#include "data/decorators.h"
#include "data/limits.h"

namespace tandem::datasets {

namespace {

constexpr const char* kWhere = "length_buckets";
constexpr std::uint32_t kBatchCall = 2;  // of the random key; 0 is that of permutation()
constexpr Index kMultiple = 8;           // of the number of samples, if batches are limited by tokens

void check(std::span<const Index> lengths, const BucketOptions& options) {
  require((options.sentences > 0) != (options.tokens > 0) && options.sentences >= 0 && options.tokens >= 0,
          kWhere, "sentences {} and tokens {}: one of the two must be positive, the other 0",
          options.sentences, options.tokens);
  require(options.grid >= 1 && options.shard >= 1, kWhere,
          "a grid of {} and shards of {} batches, both at least 1", options.grid, options.shard);
  require(!lengths.empty() && static_cast<Index>(lengths.size()) <= kMaxSamples, kWhere,
          "{} samples, expected 1 to {}", lengths.size(), kMaxSamples);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require(lengths[i] >= 0, kWhere, "sample {} has a length of {}", i, lengths[i]);
    require(options.tokens == 0 || padded_length(lengths[i], options.grid) <= options.tokens, kWhere,
            "sample {} has {} tokens, {} with padding, a batch at most {}; leave it out, cut it, or set "
            "larger batches",
            i, lengths[i], padded_length(lengths[i], options.grid), options.tokens);
  }
}

// Samples of a shard: those of `shard` batches, or of batches of mean length if limited by tokens.
Index shard_size(std::span<const Index> lengths, const BucketOptions& options) {
  if (options.sentences > 0) return options.shard * options.sentences;
  Index padded = 0;
  for (const Index length : lengths) padded += padded_length(length, options.grid);
  return std::max<Index>(options.shard * options.tokens * static_cast<Index>(lengths.size()) / padded, 1);
}

// Number of samples of the next batch, from the front of `left`, which is sorted by length.
Index next_count(std::span<const std::uint32_t> left, std::span<const Index> lengths,
                 const BucketOptions& options) {
  const auto size = static_cast<Index>(left.size());
  if (options.sentences > 0) return std::min(options.sentences, size);
  Index count = 0;
  while (count < size &&
         padded_length(lengths[left[static_cast<std::size_t>(count)]], options.grid) * (count + 1) <=
             options.tokens)
    ++count;
  return count < kMultiple ? count : count / kMultiple * kMultiple;
}

void cut(std::span<const std::uint32_t> shard, Index first, std::span<const Index> lengths,
         const BucketOptions& options, std::vector<BucketOrder::Batch>& batches) {
  while (!shard.empty()) {
    const Index count = next_count(shard, lengths, options);
    const std::uint32_t longest = shard[static_cast<std::size_t>(count - 1)];
    batches.push_back({first, count, padded_length(lengths[longest], options.grid)});
    shard = shard.subspan(static_cast<std::size_t>(count));
    first += count;
  }
}

}  // namespace

Index padded_length(Index length, Index grid) {
  return std::max<Index>((length + grid - 1) / grid, 1) * grid;
}

std::span<const std::uint32_t> BucketOrder::samples(Index batch) const {
  const Batch& which = batches.at(static_cast<std::size_t>(batch));
  return std::span(order).subspan(static_cast<std::size_t>(which.first),
                                  static_cast<std::size_t>(which.count));
}

BucketOrder order_buckets(std::span<const Index> lengths, const BucketOptions& options, std::uint32_t epoch) {
  check(lengths, options);
  const auto size = static_cast<Index>(lengths.size());
  BucketOrder buckets;
  if (options.shuffle) {
    buckets.order = permutation(size, options.seed, epoch);
  } else {
    buckets.order.resize(lengths.size());
    std::iota(buckets.order.begin(), buckets.order.end(), 0U);
  }
  const Index shard = options.shuffle ? shard_size(lengths, options) : size;
  for (Index first = 0; first < size; first += shard) {
    const auto part = std::span(buckets.order)
                          .subspan(static_cast<std::size_t>(first),
                                   static_cast<std::size_t>(std::min(shard, size - first)));
    std::ranges::stable_sort(part, {}, [&](std::uint32_t sample) { return lengths[sample]; });
    cut(part, first, lengths, options, buckets.batches);
  }
  if (options.shuffle) {
    RandomStream random(
        {.seed = options.seed, .purpose = RandomPurpose::shuffle, .call = kBatchCall, .step = epoch});
    for (std::size_t i = buckets.batches.size(); i > 1; --i)
      std::swap(buckets.batches[i - 1], buckets.batches[random.below(static_cast<std::uint32_t>(i))]);
  }
  Index real = 0, padded = 0;
  for (const Index length : lengths) real += length;
  for (const BucketOrder::Batch& batch : buckets.batches) padded += batch.count * batch.length;
  buckets.real_share = static_cast<double>(real) / static_cast<double>(padded);
  return buckets;
}

Index most_in_a_batch(std::span<const Index> lengths, const BucketOptions& options) {
  check(lengths, options);
  const auto size = static_cast<Index>(lengths.size());
  if (options.sentences > 0) return std::min(options.sentences, size);
  const Index shortest = padded_length(std::ranges::min(lengths), options.grid);
  return std::min(options.tokens / shortest, size);
}

Index most_padded(std::span<const Index> lengths, const BucketOptions& options, Index parts) {
  check(lengths, options);
  const auto size = static_cast<Index>(lengths.size());
  const auto [shortest, longest] = std::ranges::minmax(lengths);
  Index most = 0;
  for (Index length = padded_length(shortest, options.grid); length <= padded_length(longest, options.grid);
       length += options.grid) {
    const Index samples = std::min(options.sentences > 0 ? options.sentences : options.tokens / length, size);
    most = std::max(most, (samples + parts - 1) / parts * length);
  }
  return most;
}

}  // namespace tandem::datasets
