#include "data/text/pair_source.h"

#include <algorithm>

#include "core/error.h"
#include "data/text/stream_source.h"

namespace tandem::datasets {

namespace {

// By pair: the longer side; a target counts with its end.
std::vector<Index> lengths_of(const EncodedPairs& pairs) {
  std::vector<Index> lengths;
  for (Index i = 0; i < pairs.size(); ++i)
    lengths.push_back(static_cast<Index>(std::max(pairs.source(i).size(), pairs.target(i).size() + 1)));
  return lengths;
}

// Writes a sequence into column `column` of [steps,columns], from step `from` on.
void put(std::span<const std::int32_t> ids, std::int64_t* field, Index columns, Index column, Index from) {
  for (std::size_t t = 0; t < ids.size(); ++t)
    field[(static_cast<Index>(t) + from) * columns + column] = ids[t];
}

}  // namespace

PairSource::PairSource(Pairs pairs, Marks marks, BucketOptions options, Device device, Index first_pair,
                       const ShardSpec& division)
    : BucketSource(lengths_of(*pairs), options, device, division),
      pairs_(std::move(pairs)),
      marks_(marks),
      first_pair_(first_pair) {
  const auto full = [&](Index longest) {
    return options.sentences > 0 ? Shape{padded_length(longest, options.grid), layout_.samples()}
                                 : Shape{most_padded(epochs_.lengths(), options, division.parts)};
  };
  layout_.add_whole("source", full(pairs_->longest_source()), DType::i64);
  layout_.add("source_length", {}, DType::i64);
  layout_.add_whole("target_in", full(pairs_->longest_target() + 1), DType::i64);
  layout_.add_whole("target", full(pairs_->longest_target() + 1), DType::i64);
  layout_.add("target_length", {}, DType::i64);
  layout_.add("pair", {}, DType::i64);
  layout_.keep_on_host("source_length");
}

SourcePtr PairSource::divided(const ShardSpec& division) const {
  return std::make_shared<PairSource>(pairs_, marks_, epochs_.options(), device_, first_pair_,
                                      this->division().into(division));
}

std::array<Index, 2> PairSource::steps_of(std::span<const std::uint32_t> samples) const {
  std::size_t source = 0, target = 0;
  for (const std::uint32_t pair : samples) {
    source = std::max(source, pairs_->source(pair).size());
    target = std::max(target, pairs_->target(pair).size() + 1);
  }
  return {padded_length(static_cast<Index>(source), epochs_.options().grid),
          padded_length(static_cast<Index>(target), epochs_.options().grid)};
}

double PairSource::real_share(std::uint32_t epoch) const {
  const BucketEpochs::Order order = this->order(epoch);
  Index padded = 0;
  for (std::size_t k = 0; k < order->batches.size(); ++k) {
    const auto [source, target] = steps_of(order->samples(static_cast<Index>(k)));
    padded += order->batches[k].count * (source + target);
  }
  const auto real =
      static_cast<Index>(pairs_->source_ids.size() + pairs_->target_ids.size()) + pairs_->size();
  return static_cast<double>(real) / static_cast<double>(padded);
}

void PairSource::fill(const BatchKey& key, bool, BatchBuffer& buffer) const {
  const auto [order, whole, samples, count, steps] = begin(key, buffer);
  if (count == 0) return;
  const auto [source_steps, target_steps] = steps_of(whole);
  const auto numbers = [&](const Tensor& field) { return field.data<std::int64_t>(); };
  std::int64_t* const source = numbers(buffer.field("source", {source_steps, count}));
  std::int64_t* const target_in = numbers(buffer.field("target_in", {target_steps, count}));
  std::int64_t* const target = numbers(buffer.field("target", {target_steps, count}));
  std::int64_t* const source_length = numbers(buffer.field("source_length"));
  std::int64_t* const target_length = numbers(buffer.field("target_length"));
  std::int64_t* const pair = numbers(buffer.field("pair"));
  std::fill_n(source, source_steps * count, 0);
  std::fill_n(target_in, target_steps * count, 0);
  std::fill_n(target, target_steps * count, kNoTarget);
  Index targets = 0;
  for (Index i = 0; i < count; ++i) {
    const Index number = samples[static_cast<std::size_t>(i)];
    const std::span<const std::int32_t> from = pairs_->source(number), to = pairs_->target(number);
    pair[i] = first_pair_ + number;
    source_length[i] = static_cast<Index>(from.size());
    target_length[i] = static_cast<Index>(to.size()) + 1;
    put(from, source, count, i, 0);
    target_in[i] = marks_.begin;
    put(to, target_in, count, i, 1);
    put(to, target, count, i, 0);
    target[(target_length[i] - 1) * count + i] = marks_.end;
    targets += target_length[i];
  }
  buffer.set_weight(static_cast<double>(targets));
}

}  // namespace tandem::datasets
