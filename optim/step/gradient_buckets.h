// Gradient buckets: ranges of the flat buffer that are all-reduced over shards while backward is still
// running. The buffer lies in about the order in which gradients become complete.
//
// Every process starts the same buckets in the same order, regardless of which is ready first, so that the
// collectives match. Li et al., "PyTorch Distributed", VLDB 2020.
#pragma once

#include <vector>

#include "core/partition.h"
#include "optim/flat_buffers.h"
#include "optim/step/shards.h"

namespace tandem::optim {

// Assigns slots to buckets: whole parameters in order until a bucket holds `bucket_bytes`. A larger parameter
// closes the bucket of the parameters before it.
std::vector<Range> bucket_slots(const std::vector<FlatBuffers::Slot>& slots, std::size_t bucket_bytes);

class GradientBuckets {
 public:
  // Keeps both by reference; registers as observer of the leaves during its lifetime.
  GradientBuckets(const FlatBuffers& buffers, ShardExchange& exchange);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // Marks the next backward as the last one of the step, whose completed gradients can be reduced.
  void arm() { armed_ = due_ = true; }
  void disarm() { armed_ = false; }
  // Starts the remaining buckets. All gradients are complete.
  void begin_rest();
  // Waits for all buckets.
  void finish();
  // Drops the step: completes the reductions that other processes have started.
  void drop();
  // Forgets buckets that were only recorded; the recording is gone.
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
  std::size_t next_ = 0;                // next bucket to start
  bool armed_ = false;
  bool due_ = false;  // the last backward of the step has been armed, in all processes
};

}  // namespace tandem::optim
