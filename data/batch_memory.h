// Reused memory for building batches. Each batch is one block, so that one copy transfers it to a device.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch.h"

namespace tandem::datasets {

// The fields of a batch and their offsets in a block of memory. Each field has room for a full batch.
class BatchLayout {
 public:
  struct Part {
    std::string name;
    Shape full;  // in a full batch
    DType dtype = DType::f32;
    bool by_sample = true;  // the first axis counts samples
    bool on_host = false;   // has a twin where the batch lies on a device (Batch::on_host)
    Index offset = 0;       // in bytes
  };

  // `samples`: the largest number of samples.
  explicit BatchLayout(Index samples) : samples_(samples) {}

  // A field [samples, sample…].
  void add(std::string name, const Shape& sample, DType dtype);
  // Adds a field of any other shape, at most `full`, such as [steps, samples] of sequences.
  void add_whole(std::string name, const Shape& full, DType dtype);

  // Marks a field that the host also reads. For small fields: each batch keeps a host copy.
  void keep_on_host(std::string_view name) { parts_[index_of(name)].on_host = true; }

  Index samples() const { return samples_; }
  Index bytes() const { return bytes_; }
  const std::vector<Part>& parts() const { return parts_; }
  // Throws InternalError when there is no such field.
  std::size_t index_of(std::string_view name) const;

 private:
  void add_part(Part part);

  Index samples_ = 0, bytes_ = 0;
  std::vector<Part> parts_;
};

// A batch under construction.
class BatchBuffer {
 public:
  BatchBuffer(const BatchLayout& layout, Tensor block) : layout_(&layout), block_(std::move(block)) {}

  // Begins a batch after the first `first` samples of the epoch. Fields by sample get `samples` rows, the
  // others their full shape. An empty batch has no fields.
  void begin(Index samples, Index first = 0);
  // Host memory of a field. `shape` sets its shape in this batch, of at most as many elements as the full
  // one.
  Tensor field(std::string_view name) const;
  Tensor field(std::string_view name, const Shape& shape);
  void set_weight(double weight) { weight_ = weight; }
  void set_rate_factor(double factor) { rate_factor_ = factor; }

  const Tensor& block() const { return block_; }
  Index samples() const { return samples_; }
  // The batch in `block`, which is this buffer's block or a copy of it. On a device, twins are copied from
  // the buffer.
  Batch in(const Tensor& block) const;

 private:
  friend class BufferPool;

  const BatchLayout* layout_;
  Tensor block_;
  std::vector<Shape> shapes_;
  Index samples_ = 0, first_ = 0;
  double weight_ = 0.0, rate_factor_ = 1.0;
  bool taken_ = false;  // by the loader; otherwise free once no batch shares the block
};

// Buffers of one loader, in pinned memory if the batches go to a device. Thread-safe.
class BufferPool {
 public:
  // Keeps a reference to `layout`.
  BufferPool(const BatchLayout& layout, Device device) : layout_(layout), device_(device) {}

  // Allocates until there are `count` buffers.
  void reserve(std::size_t count);
  // Takes a free buffer, or allocates one.
  BatchBuffer& take();
  void give_back(BatchBuffer& buffer);

 private:
  BatchBuffer& add();  // requires the mutex

  const BatchLayout& layout_;
  Device device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<BatchBuffer>> buffers_;
};

}  // namespace tandem::datasets
