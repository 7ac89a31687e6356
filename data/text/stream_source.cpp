#include "data/text/stream_source.h"

#include <algorithm>

#include "core/error.h"
#include "core/random.h"

namespace tandem::datasets {

namespace {

constexpr std::uint32_t kLengthCall = 1;  // of the random key; 0 is permutation's
constexpr double kDeviation = 5.0, kHalved = 0.05;
constexpr Index kLeast = 5;

StreamOptions checked(StreamOptions options, const StreamSource::Ids& ids) {
  require(options.streams >= 1, "streams", "{} streams, expected at least 1", options.streams);
  require(options.steps >= 1, "streams", "chunks of {} words, expected at least 1", options.steps);
  const auto size = static_cast<Index>(ids->size());
  require(
      size / options.streams >= 2, "streams",
      "{} words in {} streams are {} each, a stream needs 2: one to read and one to predict; take at most "
      "{} streams or a longer text",
      size, options.streams, size / options.streams, size / 2);
  return options;
}

}  // namespace

StreamSource::StreamSource(Ids ids, StreamOptions options)
    : ids_(std::move(ids)),
      options_(checked(options, ids_)),
      stream_size_(static_cast<Index>(ids_->size()) / options_.streams),
      capacity_(options_.random_lengths ? std::max(options_.steps + StreamOptions::kMostBeyond, kLeast)
                                        : options_.steps),
      layout_(capacity_ * options_.streams) {
  layout_.add_whole("token", {capacity_, options_.streams}, DType::i64);
  layout_.add_whole("target", {capacity_, options_.streams}, DType::i64);
  layout_.add_whole("length", {options_.streams}, DType::i64);
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
  const Index targets = stream_size_ - 1;
  std::vector<Index> begins{0};
  while (begins.back() < targets)
    begins.push_back(std::min(begins.back() + (options_.random_lengths ? drawn() : options_.steps), targets));
  chunks_ = std::make_shared<const std::vector<Index>>(std::move(begins));
  chunks_epoch_ = epoch;
  return chunks_;
}

Index StreamSource::batches(std::uint32_t epoch) const {
  return static_cast<Index>(chunks(epoch)->size()) - 1;
}

Index StreamSource::samples_before(const BatchKey& key) const {
  return chunks(key.epoch)->at(static_cast<std::size_t>(key.number)) * options_.streams;
}

void StreamSource::fill(const BatchKey& key, bool, BatchBuffer& buffer) const {
  const Chunks all = chunks(key.epoch);
  const Index first = all->at(static_cast<std::size_t>(key.number));
  const Index length = all->at(static_cast<std::size_t>(key.number) + 1) - first;
  const Index streams = options_.streams;
  buffer.begin(length * streams, first * streams);
  if (options_.random_lengths)
    buffer.set_rate_factor(static_cast<double>(length) / static_cast<double>(options_.steps));
  std::int64_t* token = buffer.field("token").data<std::int64_t>();
  std::int64_t* target = buffer.field("target").data<std::int64_t>();
  for (Index b = 0; b < streams; ++b) {
    const std::int32_t* const stream = ids_->data() + b * stream_size_ + first;
    for (Index t = 0; t < length; ++t) {
      token[t * streams + b] = stream[t];
      target[t * streams + b] = stream[t + 1];
    }
  }
  std::fill(token + length * streams, token + capacity_ * streams, 0);
  std::fill(target + length * streams, target + capacity_ * streams, kNoTarget);
  std::fill_n(buffer.field("length").data<std::int64_t>(), streams, length);
}

}  // namespace tandem::datasets
