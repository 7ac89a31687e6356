// Cached copies of weights in the layout that a kernel prefers.
#pragma once

#include <cstdint>
#include <deque>

#include "core/error.h"
#include "core/kernel_cache.h"
#include "core/tensor.h"

namespace tandem::cpu {

// ID of a weight layout; equal keys have equal IDs.
std::uint32_t layout_id(const KernelKey& key);

// A block of weights memory derived from a storage's elements from `offset` on.
struct DerivedCopy {
  DerivedCopy(Index from, std::uint32_t as, std::size_t bytes)
      : offset(from), layout(as), data(host_allocator().allocate(bytes, MemoryKind::weights)) {}
  ~DerivedCopy() { host_allocator().deallocate(data); }
  DerivedCopy(const DerivedCopy&) = delete;
  DerivedCopy& operator=(const DerivedCopy&) = delete;

  const Index offset;  // in elements
  const std::uint32_t layout;
  void* const data;
  std::uint64_t version = 0;  // of the storage, when the copy was written
  bool filled = false;
};

// The derived copies of one storage.
struct DerivedCopies final : KeptList {
  static constexpr Kept kKept = Kept::packed_weights;
  std::deque<DerivedCopy> copies;

  DerivedCopy& at(Index offset, std::uint32_t layout, std::size_t bytes) {
    for (DerivedCopy& copy : copies)
      if (copy.offset == offset && copy.layout == layout) return copy;
    return copies.emplace_back(offset, layout, bytes);
  }
};

// Returns `bytes` of memory that `fill(address)` wrote from `tensor` in layout `layout`. The copy is refilled
// when the storage's version changes, and is freed with the storage.
template <class Fill>
const void* derived_copy(const Tensor& tensor, std::uint32_t layout, std::size_t bytes, Fill&& fill) {
  const auto offset = static_cast<Index>(tensor.offset() / size_of(tensor.dtype()));
  DerivedCopy& copy = tensor.storage()->kept<DerivedCopies>().at(offset, layout, bytes);
  if (!copy.filled || copy.version != tensor.version()) {
    fill(copy.data);
    copy.version = tensor.version();
    copy.filled = true;
  }
  return copy.data;
}

// `bytes` that `fill(address)` wrote from weights in layout `layout`, valid for this object's lifetime.
// Copies of f32 weights and small copies are cached with the weights (derived_copy). Large copies of 16-bit
// weights are temporary: cached, they would take more memory than 16 bits save, and a training step reads
// each layout once per value of the weights.
class PackedWeights {
 public:
  template <class Fill>
  PackedWeights(const Tensor& weights, std::uint32_t layout, std::size_t bytes, Fill&& fill) {
    if (!is_16bit(weights.dtype()) || bytes <= kKept) {
      data_ = derived_copy(weights, layout, bytes, fill);
    } else {
      memory_ =
          Tensor::empty({static_cast<Index>(bytes)}, {.dtype = DType::u8, .kind = MemoryKind::workspace});
      fill(memory_.raw());
      data_ = memory_.raw();
    }
  }
  // Weights used in their own layout.
  explicit PackedWeights(const Tensor& weights) : data_(weights.raw()) {}

  const void* raw() const { return data_; }
  const float* floats() const { return static_cast<const float*>(data_); }

 private:
  static constexpr std::size_t kKept = 256 * 1024;
  Tensor memory_;
  const void* data_ = nullptr;
};

}  // namespace tandem::cpu
