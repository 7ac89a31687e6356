#include "data/text/window_source.h"

#include <algorithm>

#include "core/error.h"
#include "core/random.h"
#include "data/decorators.h"
#include "data/text/stream_source.h"

namespace tandem::datasets {

namespace {

constexpr std::uint32_t kOffsetCall = 1;  // of the random key; 0 is that of permutation()

WindowOptions checked(const WindowOptions& options, const WindowSource::Ids& ids) {
  require(options.windows >= 1, "windows", "{} windows in a batch, expected at least 1", options.windows);
  require(options.length >= 1, "windows", "windows of {} words, expected at least 1", options.length);
  require(!ids->empty(), "windows", "the text has no words");
  const auto size = static_cast<Index>(ids->size()), needed = (options.windows + 1) * options.length;
  require(
      !options.shuffle || size >= needed, "windows",
      "a text of {} words is too short for a batch of {} windows of {} words, which needs {}; set a smaller "
      "data.batch_size or data.steps, or use a longer text",
      size, options.windows, options.length, needed);
  return options;
}

}  // namespace

WindowSource::WindowSource(Ids ids, const WindowOptions& options, const ShardSpec& division)
    : Source(division),
      ids_(std::move(ids)),
      options_(checked(options, ids_)),
      layout_(options_.length * division.most(options_.windows)) {
  for (const char* name : {"token", "target"})
    layout_.add_whole(name, {options_.length, division.most(options_.windows)}, DType::i64);
}

SourcePtr WindowSource::divided(const ShardSpec& division) const {
  return std::make_shared<WindowSource>(ids_, options_, this->division().into(division));
}

// With shuffle one fewer than fit, so that the first may begin at any of `length` places.
Index WindowSource::windows() const {
  if (!options_.shuffle) return (words() + options_.length - 1) / options_.length;
  return words() / options_.length - 1;
}

Index WindowSource::batches(std::uint32_t) const {
  const Index all = windows();
  return (options_.shuffle ? all / options_.windows : (all + options_.windows - 1) / options_.windows) *
         division().count;
}

Index WindowSource::samples_before(const BatchKey& key) const {
  return std::min(undivided(key).number * options_.windows * options_.length, words());
}

WindowSource::Begins WindowSource::begins(std::uint32_t epoch) const {
  const std::lock_guard lock(mutex_);
  if (begins_ && (begins_epoch_ == epoch || !options_.shuffle)) return begins_;
  std::vector<Index> begins;
  if (options_.shuffle) {
    RandomStream random(
        {.seed = options_.seed, .purpose = RandomPurpose::shuffle, .call = kOffsetCall, .step = epoch});
    const auto offset = static_cast<Index>(random.below(static_cast<std::uint32_t>(options_.length)));
    for (const std::uint32_t window : permutation(windows(), options_.seed, epoch))
      begins.push_back(offset + static_cast<Index>(window) * options_.length);
  } else {
    for (Index begin = 0; begin < words(); begin += options_.length) begins.push_back(begin);
  }
  begins_ = std::make_shared<const std::vector<Index>>(std::move(begins));
  begins_epoch_ = epoch;
  return begins_;
}

void WindowSource::fill(const BatchKey& key, bool, BatchBuffer& buffer) const {
  const Begins all = begins(key.epoch);
  const Index first = undivided(key).number * options_.windows;
  const Index in_batch = std::min(options_.windows, static_cast<Index>(all->size()) - first);
  const Range part = division().samples(key.number, in_batch);
  const auto begin_of = [&](std::size_t window) { return all->at(static_cast<std::size_t>(first) + window); };
  const auto targets_of = [&](std::size_t window) {
    return std::min(options_.length, words() - begin_of(window));
  };
  Index targets = 0, before = samples_before(key);
  for (std::size_t window = 0; window < part.first; ++window) before += targets_of(window);
  for (std::size_t window = part.first; window < part.last; ++window) targets += targets_of(window);
  buffer.begin(targets, before);
  if (targets == 0) return;

  const auto count = static_cast<Index>(part.count());
  const Shape shape{options_.length, count};
  std::int64_t* token = buffer.field("token", shape).data<std::int64_t>();
  std::int64_t* target = buffer.field("target", shape).data<std::int64_t>();
  const PackedIds& ids = *ids_;
  for (Index n = 0; n < count; ++n) {
    const std::size_t window = part.first + static_cast<std::size_t>(n);
    const auto begin = static_cast<std::size_t>(begin_of(window));
    const Index own = targets_of(window);
    for (Index t = 0; t < options_.length; ++t) {
      const std::size_t at = begin + static_cast<std::size_t>(t);
      token[t * count + n] = t >= own ? 0 : at == 0 ? options_.begin : ids[at - 1];
      target[t * count + n] = t >= own ? kNoTarget : ids[at];
    }
  }
}

}  // namespace tandem::datasets
