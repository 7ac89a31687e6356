// Caching allocator for host and device memory.
//
// Memory comes from the system in segments and is handed out as blocks: best fit, split if the rest is worth
// keeping, merged with free neighbours on return. Segments are kept until `trim`. With fixed shapes, training
// steps after the first request no memory from the system.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace tandem {

// Use of memory; live and peak bytes are recorded per kind.
enum class MemoryKind : std::uint8_t { weights, masters, gradients, optimizer, activations, workspace, data };

inline constexpr int kMemoryKindCount = 7;

// "weights", "masters", …
std::string_view name_of(MemoryKind kind);

struct MemoryFigures {
  std::size_t live = 0;               // bytes in blocks handed out
  std::size_t peak = 0;               // highest `live` since the last reset_peak
  std::size_t reserved = 0;           // bytes obtained from the system
  std::size_t peak_reserved = 0;      // highest `reserved` since the last reset_peak
  std::uint64_t system_requests = 0;  // total number of requests to the system
  std::array<std::size_t, kMemoryKindCount> live_by_kind{};
  std::array<std::size_t, kMemoryKindCount> peak_by_kind{};  // live_by_kind at the moment of `peak`
};

struct FreeMemory {
  std::size_t free = 0, total = 0;  // bytes
};

// Source of segments. `acquire` returns nullptr when the system refuses.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* acquire(std::size_t bytes) = 0;
  virtual void release(void* segment, std::size_t bytes) = 0;
  virtual std::string_view name() const = 0;
  // Free memory of the system, if it can be queried.
  virtual std::optional<FreeMemory> free_memory() const { return {}; }
};

class CachingAllocator {
 public:
  // With `keeps_segments` it returns no segment before its destruction: memory used by a recording must stay.
  explicit CachingAllocator(std::unique_ptr<MemorySource> source, bool keeps_segments = false);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // At least `bytes` bytes aligned to kAlignment; nullptr for 0 bytes. Thread-safe. If the system refuses
  // even after a trim, throws VendorError with the requested, used and free bytes, and advice.
  void* allocate(std::size_t bytes, MemoryKind kind);
  void deallocate(void* block) noexcept;

  MemoryFigures figures() const;
  void reset_peak();

  // Returns segments without live blocks to the system.
  void trim();

  // For tests: grants this many requests and refuses the next one, once, as when memory is exhausted. Absent:
  // refuses none.
  void refuse_after(std::optional<std::uint64_t> grants);

  static constexpr std::size_t kAlignment = 64;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The allocator of host memory; it lives as long as the process.
CachingAllocator& host_allocator();

}  // namespace tandem
