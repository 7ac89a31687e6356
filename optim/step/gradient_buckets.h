// Gradients that are added up over shards while backward still makes others: ranges of the flat buffer, which
// lie in about the order in which they are complete, begun one after the other as they get whole.
//
// Every process begins the same buckets in the same order, whatever gets ready when, so that those of all of
// them meet. Li et al., "PyTorch Distributed", VLDB 2020.
#pragma once

#include <vector>

#include "core/partition.h"
#include "optim/flat_buffers.h"
#include "optim/step/shards.h"

namespace tandem::optim {

// How slots are put together: whole parameters from the first on, until there are so many bytes. One bucket
// more than needed is never made; a parameter larger than that has one of its own with those before it.
std::vector<Range> bucket_slots(const std::vector<FlatBuffers::Slot>& slots, std::size_t bucket_bytes);

class GradientBuckets {
 public:
  // Both are kept by reference, and told of by the leaves until this is gone.
  GradientBuckets(const FlatBuffers& buffers, ShardExchange& exchange);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // The backward that comes is the last one of the step: what it completes is begun.
  void arm() { armed_ = due_ = true; }
  void disarm() { armed_ = false; }
  // Begins the buckets that have not been begun. Every gradient is there.
  void begin_rest();
  // Waits for all of them.
  void finish();
  // The step is dropped: what other processes have begun comes to its end.
  void drop();
  // What was begun has only been recorded, and the recording is gone.
  void forget();

 private:
  struct Bucket {
    Index first = 0, count = 0;  // elements
    std::size_t slots = 0, ready = 0;
  };

  void slot_is_ready(std::size_t slot);
  void begin_next();

  const FlatBuffers& buffers_;
  ShardExchange& exchange_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // by slot
  std::vector<char> is_ready_;          // by slot
  std::size_t next_ = 0;                // to be begun
  bool armed_ = false;
  bool due_ = false;  // the last backward of the step has been armed, here as everywhere
};

}  // namespace tandem::optim
