#include "data/text/stream_source.h"

#include <algorithm>

#include "core/error.h"
#include "core/random.h"

namespace tandem::datasets {

namespace {

constexpr std::uint32_t kLengthCall = 1;  // of the random key; 0 is that of permutation()
constexpr double kDeviation = 5.0, kHalved = 0.05;
constexpr Index kLeast = 5;

StreamOptions checked(StreamOptions options, const StreamSource::Ids& ids) {
  require(options.streams >= 1, "streams", "{} streams, expected at least 1", options.streams);
  require(options.steps >= 1, "streams", "chunks of {} words, expected at least 1", options.steps);
  const auto size = static_cast<Index>(ids->size());
  require(size >= options.streams, "streams",
          "{} words in {} streams, expected one for each; set at most {} streams (batch_size, "
          "eval_batch_size) or use a longer text",
          size, options.streams, size);
  return options;
}

}  // namespace

StreamSource::StreamSource(Ids ids, StreamOptions options, const ShardSpec& division)
    : Source(division),
      ids_(std::move(ids)),
      options_(checked(options, ids_)),
      capacity_(options_.random_lengths ? std::max(options_.steps + StreamOptions::kMostBeyond, kLeast)
                                        : options_.steps),
      layout_(capacity_ * division.most(options_.streams)) {
  const Index streams = division.most(options_.streams);
  layout_.add_whole("token", {capacity_, streams}, DType::i64);
  layout_.add_whole("target", {capacity_, streams}, DType::i64);
  layout_.add_whole("length", {streams}, DType::i64);
}

SourcePtr StreamSource::divided(const ShardSpec& division) const {
  return std::make_shared<StreamSource>(ids_, options_, this->division().into(division));
}

StreamSource::Chunks StreamSource::chunks(std::uint32_t epoch) const {
  const std::lock_guard lock(mutex_);
  if (chunks_ && (chunks_epoch_ == epoch || !options_.random_lengths)) return chunks_;
  RandomStream random(
      {.seed = options_.seed, .purpose = RandomPurpose::shuffle, .call = kLengthCall, .step = epoch});
  const auto mean = static_cast<double>(options_.steps);
  const auto drawn = [&] {
    const double around = random.uniform() < kHalved ? mean / 2.0 : mean;
    return std::clamp(static_cast<Index>(around + kDeviation * random.normal()), kLeast, capacity_);
  };
  const auto targets = static_cast<Index>(words_of(0).count());
  std::vector<Index> begins{0};
  while (begins.back() < targets)
    begins.push_back(std::min(begins.back() + (options_.random_lengths ? drawn() : options_.steps), targets));
  chunks_ = std::make_shared<const std::vector<Index>>(std::move(begins));
  chunks_epoch_ = epoch;
  return chunks_;
}

Index StreamSource::batches(std::uint32_t epoch) const {
  return (static_cast<Index>(chunks(epoch)->size()) - 1) * division().count;
}

Range StreamSource::words_of(Index stream) const {
  return part_of(ids_->size(), static_cast<std::size_t>(options_.streams), static_cast<std::size_t>(stream));
}

Index StreamSource::targets_in(Index stream, Index begin, Index end) const {
  const auto words = static_cast<Index>(words_of(stream).count());
  return std::min(words, end) - std::min(words, begin);
}

Index StreamSource::samples_before(const BatchKey& key) const {
  const Index rows = chunks(key.epoch)->at(static_cast<std::size_t>(undivided(key).number));
  return std::min(rows * options_.streams, words());
}

void StreamSource::fill(const BatchKey& key, bool, BatchBuffer& buffer) const {
  const Chunks all = chunks(key.epoch);
  const auto chunk = static_cast<std::size_t>(undivided(key).number);
  const Index first = all->at(chunk), end = all->at(chunk + 1), length = end - first;
  const Range part = division().samples(key.number, options_.streams);
  const auto first_stream = static_cast<Index>(part.first), streams = static_cast<Index>(part.count());
  Index targets = 0, before = samples_before(key);
  for (Index b = 0; b < first_stream; ++b) before += targets_in(b, first, end);
  for (Index b = 0; b < streams; ++b) targets += targets_in(first_stream + b, first, end);
  buffer.begin(targets, before);
  if (options_.random_lengths)
    buffer.set_rate_factor(static_cast<double>(length) / static_cast<double>(options_.steps));
  if (targets == 0) return;
  std::int64_t* token = buffer.field("token", {capacity_, streams}).data<std::int64_t>();
  std::int64_t* target = buffer.field("target", {capacity_, streams}).data<std::int64_t>();
  std::int64_t* lengths = buffer.field("length", {streams}).data<std::int64_t>();
  std::fill(token, token + capacity_ * streams, 0);
  std::fill(target, target + capacity_ * streams, kNoTarget);
  const PackedIds& ids = *ids_;
  for (Index b = 0; b < streams; ++b) {
    const std::size_t begin = words_of(first_stream + b).first + static_cast<std::size_t>(first);
    lengths[b] = targets_in(first_stream + b, first, end);
    for (Index t = 0; t < lengths[b]; ++t) {
      const std::size_t at = begin + static_cast<std::size_t>(t);
      token[t * streams + b] = at == 0 ? options_.begin : ids[at - 1];
      target[t * streams + b] = ids[at];
    }
  }
}

}  // namespace tandem::datasets
