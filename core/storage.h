// A block of memory on one device, shared by the tensors that view it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/allocator.h"
#include "core/device.h"
#include "core/ref.h"

namespace tandem {

// Data derived from a storage and kept with it: one list per kind, whose type defines `static constexpr Kept
// kKept`. Dropped with the storage. Readers compare an item's version with the storage's.
struct KeptList {
  virtual ~KeptList() = default;
};
enum class Kept : std::uint8_t { packed_weights, working_copies };
inline constexpr std::size_t kKeptCount = 2;

class Storage final : public RefCounted {
 public:
  // Uninitialised memory from `allocator`, which must outlive the storage.
  Storage(CachingAllocator& allocator, std::size_t bytes, Device device, MemoryKind kind)
      : allocator_(&allocator), data_(allocator.allocate(bytes, kind)), bytes_(bytes), device_(device) {}

  ~Storage() override {
    if (allocator_) allocator_->deallocate(data_);
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // Counts in-place writes (optimizer updates, running statistics). A changed version of a tensor saved for
  // backward is an error.
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  // The list of one kind, or nullptr. For the thread that drives the device.
  template <class List>
  List* find_kept() const {
    return static_cast<List*>(kept_[static_cast<std::size_t>(List::kKept)].get());
  }
  // Makes the list if absent.
  template <class List>
  List& kept() {
    std::unique_ptr<KeptList>& list = kept_[static_cast<std::size_t>(List::kKept)];
    if (!list) list = std::make_unique<List>();
    return static_cast<List&>(*list);
  }

 private:
  CachingAllocator* allocator_;
  void* data_;
  std::size_t bytes_;
  Device device_;
  std::atomic<std::uint64_t> version_{0};
  std::array<std::unique_ptr<KeptList>, kKeptCount> kept_;
};

}  // namespace tandem
