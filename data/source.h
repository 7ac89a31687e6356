// Source: fills batches. What batch k of an epoch holds is a pure function of (seed, epoch, k): numbered
// samples in shuffled order, contiguous streams, buckets by length, pairs drawn anew all derive from it, and
// the Loader adds threads, upload and position to any of them.
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
  Index number = 0;  // within the epoch, from 0
};

// Makes of a batch that has arrived on a device what the model gets: pixels of 8-bit records, say.
class DevicePreprocess {
 public:
  virtual ~DevicePreprocess() = default;
  // Memory on the device for the results of one batch, used again for later ones.
  virtual std::vector<Tensor> memory() const = 0;
  // `parts` are the fields as they were filled. Asks the device for the work and does not wait.
  virtual Batch finish(Batch parts, std::span<const Tensor> memory) const = 0;
};

class Source;
using SourcePtr = std::shared_ptr<const Source>;

class Source {
 public:
  virtual ~Source() = default;

  // The same batches, of which only the parts that `division` names are filled: batch k·count + i is part
  // first + i of batch k. Samples, padding, weights and rate factors are those of the undivided batch, and so
  // is what belongs to all of its samples; a part's fields hold its own samples on the axis that counts them.
  // Where samples are mixed with each other, they are within their part, so that it equals no part of the
  // undivided batch. A part without samples is a batch of no fields. Throws UserError when there are no such
  // parts, InternalError when this source is divided itself.
  virtual SourcePtr divided(const ShardSpec& division) const = 0;
  const ShardSpec& division() const { return division_; }

  // The fields that `fill` writes, with room for the largest part; the same for the life of the source.
  virtual const BatchLayout& layout() const = 0;
  virtual Index batches(std::uint32_t epoch) const = 0;
  // Samples in the first `number` batches of an epoch; `number` is at most its batches. Divided, those of the
  // undivided batches of which all parts come before, so that a position is the same for any division.
  virtual Index samples_before(const BatchKey& key) const = 0;
  // Fills a batch. Called from several threads at once. `parallel`: on the OpenMP team of the calling thread.
  // Throws UserError naming the place when something cannot be read.
  virtual void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const = 0;
  // Where batches are wanted.
  virtual Device device() const { return {}; }
  // What is done with a batch there; absent: the fields are used as they were filled.
  virtual std::unique_ptr<DevicePreprocess> arrival() const { return nullptr; }

 protected:
  // Throws UserError when there are no such parts.
  explicit Source(const ShardSpec& division = {}) : division_(division.checked()) {}

  // The batch that a batch is a part of.
  BatchKey undivided(const BatchKey& key) const { return {key.epoch, division_.batch(key.number)}; }

 private:
  ShardSpec division_;
};

}  // namespace tandem::datasets
