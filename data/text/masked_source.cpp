#include "data/text/masked_source.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "data/text/stream_source.h"

namespace tandem::datasets {

namespace {

constexpr float kMasked = 0.8F, kReplaced = 0.9F;  // cumulative shares of [MASK] and of random words

std::vector<Index> lengths_with_marks(const Passages& passages, bool pairs) {
  std::vector<Index> lengths;
  lengths.reserve(passages.places.size());
  for (const Passages::Place& place : passages.places) lengths.push_back(place.count + marks_in(pairs));
  return lengths;
}

// Ids of the first part of a pair.
Index half_of(Index count) { return (count + 1) / 2; }

}  // namespace

Index masked_count(Index tokens, const MaskingOptions& options) {
  const auto rounded = static_cast<Index>(std::nearbyint(options.share * static_cast<double>(tokens)));
  return std::clamp<Index>(rounded, 1, options.most);
}

MaskedSource::MaskedSource(PassagesPtr passages, MaskedMarks marks, const MaskingOptions& masking,
                           BucketOptions options, Device device, const ShardSpec& division)
    : BucketSource(lengths_with_marks(*passages, masking.pairs), options, device, division),
      passages_(std::move(passages)),
      marks_(std::move(marks)),
      masking_(masking) {
  require(marks_.words > static_cast<Index>(marks_.special.size()), "masked texts",
          "a vocabulary of {} has no words besides its {} marks", marks_.words, marks_.special.size());
  require(masking.share > 0.0 && masking.share <= 1.0 && masking.most >= 1, "masked texts",
          "masks a share of {} and at most {} tokens of a text, expected (0,1] and at least 1", masking.share,
          masking.most);
  require(
      !masking.pairs || std::ranges::all_of(passages_->places, [](const auto& p) { return p.count >= 2; }),
      "masked texts", "pairs need passages of at least two ids");
  const Shape full{padded_length(std::ranges::max(epochs_.lengths()), options.grid), layout_.samples()};
  layout_.add_whole("tokens", full, DType::i64);
  layout_.add("lengths", {}, DType::i64);
  layout_.keep_on_host("lengths");
  layout_.add("masked_positions", {masking.most}, DType::i64);
  layout_.add("masked_labels", {masking.most}, DType::i64);
  if (!masking.pairs) return;
  layout_.add_whole("segments", full, DType::i64);
  layout_.add("next", {}, DType::i64);
}

SourcePtr MaskedSource::divided(const ShardSpec& division) const {
  return std::make_shared<MaskedSource>(passages_, marks_, masking_, epochs_.options(), device_,
                                        this->division().into(division));
}

RandomKey MaskedSource::key_of(Index sample, std::uint32_t epoch) const {
  RandomKey key{.seed = masking_.seed, .purpose = RandomPurpose::augmentation};
  if (masking_.training) {
    key.call = static_cast<std::uint32_t>(sample);
    key.step = epoch;
    return key;
  }
  const Passages::Place& place = passages_->places[static_cast<std::size_t>(sample)];
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a of the words
  for (Index i = 0; i < place.count; ++i)
    hash = (hash ^ static_cast<std::uint32_t>((*passages_->ids)[place.first + static_cast<std::size_t>(i)])) *
           1099511628211u;
  key.call = static_cast<std::uint32_t>(hash);
  key.step = static_cast<std::uint32_t>(hash >> 32);
  return key;
}

MaskedText MaskedSource::text(Index sample, std::uint32_t epoch) const {
  RandomStream random(key_of(sample, epoch));
  const auto& places = passages_->places;
  const Passages::Place& own = places[static_cast<std::size_t>(sample)];
  MaskedText text;
  const auto append = [&](std::size_t first, Index count) {
    for (Index i = 0; i < count; ++i)
      text.tokens.push_back((*passages_->ids)[first + static_cast<std::size_t>(i)]);
    text.tokens.push_back(marks_.end);
  };
  text.tokens.reserve(static_cast<std::size_t>(own.count + marks_in(masking_.pairs)));
  text.tokens.push_back(marks_.begin);
  if (!masking_.pairs) {
    append(own.first, own.count);
    text.first_segment = static_cast<Index>(text.tokens.size());
  } else {
    const Index half = half_of(own.count);
    append(own.first, half);
    text.first_segment = static_cast<Index>(text.tokens.size());
    Passages::Place second{own.first + static_cast<std::size_t>(half), own.count - half};
    if (places.size() > 1 && random.uniform() < 0.5F) {
      text.next = 1;
      std::size_t other = random.below(static_cast<std::uint32_t>(places.size() - 1));
      other += other >= static_cast<std::size_t>(sample) ? 1 : 0;
      const Index skipped = half_of(places[other].count);
      second = {places[other].first + static_cast<std::size_t>(skipped),
                std::min(second.count, places[other].count - skipped)};
    }
    append(second.first, second.count);
  }
  mask(text, random);
  return text;
}

void MaskedSource::mask(MaskedText& text, RandomStream& random) const {
  std::vector<Index> candidates;
  for (std::size_t t = 0; t < text.tokens.size(); ++t)
    if (text.tokens[t] != marks_.begin && text.tokens[t] != marks_.end)
      candidates.push_back(static_cast<Index>(t));
  const auto count = std::min<std::size_t>(
      candidates.size(),
      static_cast<std::size_t>(masked_count(static_cast<Index>(text.tokens.size()), masking_)));
  for (std::size_t i = 0; i < count; ++i)  // the first steps of a shuffle
    std::swap(candidates[i], candidates[i + random.below(static_cast<std::uint32_t>(candidates.size() - i))]);
  candidates.resize(count);
  std::ranges::sort(candidates);
  const auto random_word = [&] {
    for (;;) {
      const auto word = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(marks_.words)));
      if (!std::ranges::binary_search(marks_.special, word)) return word;
    }
  };
  for (const Index position : candidates) {
    std::int64_t& token = text.tokens[static_cast<std::size_t>(position)];
    text.labels.push_back(token);
    const float drawn = random.uniform();
    if (drawn < kMasked) {
      token = marks_.mask;
    } else if (drawn < kReplaced) {
      token = random_word();
    }
  }
  text.positions = std::move(candidates);
}

void MaskedSource::fill(const BatchKey& key, bool, BatchBuffer& buffer) const {
  const auto [order, whole, samples, count, steps] = begin(key, buffer);
  if (count == 0) return;
  const auto numbers = [](const Tensor& field) { return field.data<std::int64_t>(); };
  std::int64_t* const tokens = numbers(buffer.field("tokens", {count, steps}));
  std::int64_t* const segments = masking_.pairs ? numbers(buffer.field("segments", {count, steps})) : nullptr;
  std::int64_t* const next = masking_.pairs ? numbers(buffer.field("next")) : nullptr;
  std::int64_t* const lengths = numbers(buffer.field("lengths"));
  std::int64_t* const positions = numbers(buffer.field("masked_positions"));
  std::int64_t* const labels = numbers(buffer.field("masked_labels"));
  std::fill_n(tokens, count * steps, marks_.padding);
  if (segments) std::fill_n(segments, count * steps, 0);
  std::fill_n(positions, count * masking_.most, 0);
  std::fill_n(labels, count * masking_.most, kNoTarget);
  Index chosen = 0;
  for (Index n = 0; n < count; ++n) {
    const MaskedText one = text(samples[static_cast<std::size_t>(n)], key.epoch);
    const auto length = static_cast<Index>(one.tokens.size());
    std::ranges::copy(one.tokens, tokens + n * steps);
    if (segments) {
      std::fill_n(segments + n * steps + one.first_segment, length - one.first_segment, 1);
      next[n] = one.next;
    }
    lengths[n] = length;
    for (std::size_t i = 0; i < one.positions.size(); ++i)
      positions[n * masking_.most + static_cast<Index>(i)] = n * steps + one.positions[i];
    std::ranges::copy(one.labels, labels + n * masking_.most);
    chosen += static_cast<Index>(one.positions.size());
  }
  buffer.set_weight(static_cast<double>(chosen));
}

}  // namespace tandem::datasets
