// Memory of batches in the making: one block each, so that one copy brings all of it to a device; used again
// batch after batch.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch.h"

namespace tandem::datasets {

// Which fields a batch has, and where they lie in a block of memory. A field has room for a full batch.
class BatchLayout {
 public:
  struct Part {
    std::string name;
    Shape full;  // of a full batch
    DType dtype = DType::f32;
    bool by_sample = true;  // the first axis counts samples
    bool on_host = false;   // has a twin where the batch lies on a device (Batch::on_host)
    Index offset = 0;       // bytes
  };

  // Of up to `samples` samples.
  explicit BatchLayout(Index samples) : samples_(samples) {}

  // A field [samples, sample…].
  void add(std::string name, const Shape& sample, DType dtype);
  // A field of any other shape, at most `full`: [steps, samples] of sequences, say.
  void add_whole(std::string name, const Shape& full, DType dtype);

  // The host reads this field, too, wherever its batches go. For what is small: each batch has it in memory
  // of its own.
  void keep_on_host(std::string_view name) { parts_[index_of(name)].on_host = true; }

  Index samples() const { return samples_; }
  Index bytes() const { return bytes_; }
  const std::vector<Part>& parts() const { return parts_; }
  // The number of a field; throws InternalError when there is none.
  std::size_t index_of(std::string_view name) const;

 private:
  void add_part(Part part);

  Index samples_ = 0, bytes_ = 0;
  std::vector<Part> parts_;
};

// One batch in the making.
class BatchBuffer {
 public:
  BatchBuffer(const BatchLayout& layout, Tensor block) : layout_(&layout), block_(std::move(block)) {}

  // Begins a batch behind the first `first` samples of its epoch: fields by sample have so many samples, the
  // others their full shapes. Without samples it has no fields.
  void begin(Index samples, Index first = 0);
  // The memory of a field, on the host. With a shape: the field has that shape in this batch, which takes no
  // more room than its full one.
  Tensor field(std::string_view name) const;
  Tensor field(std::string_view name, const Shape& shape);
  void set_weight(double weight) { weight_ = weight; }
  void set_rate_factor(double factor) { rate_factor_ = factor; }

  const Tensor& block() const { return block_; }
  Index samples() const { return samples_; }
  // The batch as it lies in `block`: this buffer's, or a copy of it elsewhere. On a device, twins are made of
  // what the buffer holds.
  Batch in(const Tensor& block) const;

 private:
  friend class BufferPool;

  const BatchLayout* layout_;
  Tensor block_;
  std::vector<Shape> shapes_;
  Index samples_ = 0, first_ = 0;
  double weight_ = 0.0, rate_factor_ = 1.0;
  bool taken_ = false;  // from the pool; otherwise free once no batch shares the block
};

// Buffers of one loader, in memory that its device copies from without waiting. Thread-safe.
class BufferPool {
 public:
  // `layout` is kept by reference.
  BufferPool(const BatchLayout& layout, Device device) : layout_(layout), device_(device) {}

  // Makes buffers until there are `count`.
  void reserve(std::size_t count);
  // A free buffer, taken; a new one when there is none.
  BatchBuffer& take();
  void give_back(BatchBuffer& buffer);

 private:
  BatchBuffer& add();  // with the mutex held

  const BatchLayout& layout_;
  Device device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<BatchBuffer>> buffers_;
};

}  // namespace tandem::datasets
