// A block of memory on one device, shared by the tensors that view it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/allocator.h"
#include "core/device.h"
#include "core/ref.h"

namespace tandem {

// What a backend derives from a storage and keeps with it, such as weights packed for one convolution.
// Dropped with the storage; the backend compares `version` with the storage's before it trusts the contents.
struct StorageAttachment {
  virtual ~StorageAttachment() = default;
  std::uint64_t version = 0;
};

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

  // Counts the in-place writes (optimizer updates, running statistics). A tensor saved for backward whose
  // storage has moved on is an error.
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  // The attachment under `key`, nullptr when there is none.
  template <class T>
  T* find_attachment(std::uint64_t key) const {
    for (const auto& [existing, value] : attachments_) {
      if (existing == key) return static_cast<T*>(value.get());
    }
    return nullptr;
  }
  // Calls visit(key, attachment) for each.
  template <class Visit>
  void for_each_attachment(Visit&& visit) const {
    for (const auto& [key, value] : attachments_) visit(key, *value);
  }
  // The attachment under `key` (an offset and layout id of the backend's choosing); created by `make` when
  // absent. Attachments are used by the one thread that drives the device.
  template <class T, class Make>
  T& attachment(std::uint64_t key, Make&& make) {
    if (T* existing = find_attachment<T>(key)) return *existing;
    attachments_.emplace_back(key, make());
    return static_cast<T&>(*attachments_.back().second);
  }

 private:
  CachingAllocator* allocator_;
  void* data_;
  std::size_t bytes_;
  Device device_;
  std::atomic<std::uint64_t> version_{0};
  std::vector<std::pair<std::uint64_t, std::unique_ptr<StorageAttachment>>> attachments_;
};

}  // namespace tandem
