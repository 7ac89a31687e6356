// Copies of weights in the layout a kernel prefers.
#pragma once

#include <cstdint>
#include <memory>

#include "core/error.h"
#include "core/plan.h"
#include "core/tensor.h"

namespace tandem::cpu {

// The number of a layout that weights are copied into; the same key always has the same number.
std::uint32_t layout_id(const PlanKey& key);

// A block of weights memory that hangs on the storage it was derived from.
struct DerivedCopy final : StorageAttachment {
  explicit DerivedCopy(std::size_t bytes) : data(host_allocator().allocate(bytes, MemoryKind::weights)) {}
  ~DerivedCopy() override { host_allocator().deallocate(data); }
  DerivedCopy(const DerivedCopy&) = delete;
  DerivedCopy& operator=(const DerivedCopy&) = delete;

  void* const data;
  bool filled = false;
};

// Layout numbers lie below; storage keys of the layout itself belong to the working copies of parameters
// (autograd/leaf.cpp).
inline constexpr std::uint32_t kReservedLayout = (1u << 24) - 1;

// `bytes` of memory that `fill(address)` wrote from `tensor` in layout `layout`. It is filled anew when the
// version of the storage has moved since, and goes with the storage.
template <class Fill>
const void* derived_copy(const Tensor& tensor, std::uint32_t layout, std::size_t bytes, Fill&& fill) {
  ensure(layout < kReservedLayout, "packed weights", "{} layouts", layout);
  const std::uint64_t key =
      static_cast<std::uint64_t>(tensor.offset() / size_of(tensor.dtype())) << 24 | layout;
  auto& copy =
      tensor.storage()->attachment<DerivedCopy>(key, [&] { return std::make_unique<DerivedCopy>(bytes); });
  if (!copy.filled || copy.version != tensor.version()) {
    fill(copy.data);
    copy.version = tensor.version();
    copy.filled = true;
  }
  return copy.data;
}

// `bytes` that `fill(address)` wrote from weights in layout `layout`, for as long as this lives. They stay
// with f32 weights and, while few, with any (derived_copy). A large copy of 16-bit weights lives no longer
// than this: kept, the copies would take more memory than the 16 bits save, and a training step reads each
// layout once per value of the weights.
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
  // Weights that are used as they lie.
  explicit PackedWeights(const Tensor& weights) : data_(weights.raw()) {}

  const void* raw() const { return data_; }
  const float* floats() const { return static_cast<const float*>(data_); }

 private:
  static constexpr std::size_t kKept = 256 * 1024;
  Tensor memory_;
  const void* data_ = nullptr;
};

}  // namespace tandem::cpu
