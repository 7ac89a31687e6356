// What fills a batch: memory that is used again, and the work on its samples.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "data/loader.h"

namespace tandem::datasets {

// Tensors for a full batch. A partial one uses their first rows.
struct BatchBuffer {
  Tensor images, labels, soft_targets, indices;
  bool taken = false;  // by a builder; otherwise free once no batch shares the tensors

  // The first `count` samples.
  Batch batch(Index count) const;
};

// Buffers of one loader. Thread-safe.
class BufferPool {
 public:
  BufferPool(Shape sample_shape, Index batch_size, Index soft_classes)
      : sample_shape_(sample_shape), batch_size_(batch_size), soft_classes_(soft_classes) {}

  // Makes buffers until there are `count`.
  void reserve(std::size_t count);
  // A free buffer, taken; a new one when there is none.
  BatchBuffer& take();
  void give_back(BatchBuffer& buffer);

 private:
  BatchBuffer& add();  // with the mutex held

  Shape sample_shape_;
  Index batch_size_, soft_classes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<BatchBuffer>> buffers_;
};

struct BuildContext {
  const Dataset& dataset;
  const Pipeline& pipeline;
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  bool parallel = true;  // on the OpenMP team of this thread
};

// Reads, transforms and mixes `samples` into `buffer`. Rethrows the error of the first sample, in batch
// order, that failed.
void build_batch(const BuildContext& context, std::span<const std::uint32_t> samples, BatchBuffer& buffer);

}  // namespace tandem::datasets
