// Source: fills batches. Batch k of an epoch is a pure function of (seed, epoch, k): shuffled samples,
// contiguous streams, length buckets or sampled pairs. The Loader adds threads, upload and position to any
// source.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/batch_memory.h"
#include "data/shard_spec.h"

namespace tandem::datasets {

struct BatchKey {
  std::uint32_t epoch = 0;
  Index number = 0;  // in the epoch, from 0
};

// Converts a batch that was copied to a device into the model's input, such as pixels of 8-bit records.
class DevicePreprocess {
 public:
  virtual ~DevicePreprocess() = default;
  // Device memory for the results of one batch, reused for later ones.
  virtual std::vector<Tensor> memory() const = 0;
  // `parts` are the fields as filled. Enqueues the work and does not wait.
  virtual Batch finish(Batch parts, std::span<const Tensor> memory) const = 0;
};

class Source;
using SourcePtr = std::shared_ptr<const Source>;

class Source {
 public:
  virtual ~Source() = default;

  // A source that fills only the parts of `division`: batch k·count + i is part first + i of batch k. Sample
  // counts, padding, weights, rate factors and fields without a sample axis are those of the undivided batch;
  // fields with one hold the part's samples. Samples are mixed within their part, so mixed parts differ from
  // the undivided batch. An empty part has no fields. Throws UserError for an invalid division, InternalError
  // when this source is divided itself.
  virtual SourcePtr divided(const ShardSpec& division) const = 0;
  const ShardSpec& division() const { return division_; }

  // The fields that `fill` writes, with room for the largest part; constant.
  virtual const BatchLayout& layout() const = 0;
  virtual Index batches(std::uint32_t epoch) const = 0;
  // Samples in the first `number` batches of an epoch. With shards: in the undivided batches whose parts all
  // come before, so that a position is independent of the division.
  virtual Index samples_before(const BatchKey& key) const = 0;
  // Fills a batch; thread-safe. `parallel`: in parallel loops of the calling thread. Throws UserError that
  // names the unreadable file.
  virtual void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const = 0;
  // Device of the batches.
  virtual Device device() const { return {}; }
  // Preprocessing on that device; absent: the fields are used as filled.
  virtual std::unique_ptr<DevicePreprocess> device_preprocess() const { return nullptr; }

 protected:
  // Throws UserError for an invalid division.
  explicit Source(const ShardSpec& division = {}) : division_(division.checked()) {}

  // The batch that contains this part.
  BatchKey undivided(const BatchKey& key) const { return {key.epoch, division_.batch(key.number)}; }

 private:
  ShardSpec division_;
};

}  // namespace tandem::datasets
