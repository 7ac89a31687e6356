// Memory of batches in the making: one block each, so that one copy brings all of it to a device; used again
// batch after batch.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "data/loader.h"

namespace tandem::datasets {

// A batch as its parts lie in a block. Either batch.images, f32 or i64, or what Backend::render_images makes
// them of.
struct BatchParts {
  Batch batch;
  Tensor records;  // u8 [N,H,W,C]
  Tensor windows;  // u8 [N,sizeof(ImageWindow)]
};

// Where the parts of a batch of up to `batch_size` samples lie in a block of memory.
class BatchLayout {
 public:
  // With `records` the images are kept as 8-bit records and windows; the pipeline must take windows.
  BatchLayout(const Pipeline& pipeline, Index batch_size, bool records);

  Index batch_size() const { return batch_size_; }
  Index bytes() const { return bytes_; }
  bool has_records() const { return records_.present; }
  // The first `count` samples of a block, u8 [bytes()] in host or device memory.
  BatchParts parts(const Tensor& block, Index count) const;

 private:
  struct Part {
    Shape sample{};
    DType dtype = DType::f32;
    Index offset = 0;  // bytes
    bool present = false;
  };
  Part add(const Shape& sample, DType dtype);

  Index batch_size_ = 0, bytes_ = 0;
  Part images_, records_, windows_, labels_, soft_targets_, indices_;
};

struct BatchBuffer {
  Tensor block;
  Index count = 0;      // samples in it
  double weight = 0.0;  // Batch::weight
  bool taken = false;   // from the pool; otherwise free once no batch shares the block
};

// Buffers of one loader, in memory that its device copies from without waiting. Thread-safe.
class BufferPool {
 public:
  BufferPool(Index bytes, Device device) : bytes_(bytes), device_(device) {}

  // Makes buffers until there are `count`.
  void reserve(std::size_t count);
  // A free buffer, taken; a new one when there is none.
  BatchBuffer& take();
  void give_back(BatchBuffer& buffer);

 private:
  BatchBuffer& add();  // with the mutex held

  Index bytes_;
  Device device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<BatchBuffer>> buffers_;
};

}  // namespace tandem::datasets
