// The one caching allocator, over host and device memory alike.
//
// Memory comes from the system in segments and is handed out as blocks: best fit, split when the rest is
// worth keeping, merged with free neighbours when returned. Segments are kept until `trim`. With fixed shapes
// a training step after the first asks the system for nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace tandem {

// What memory is used for; live and peak figures are kept for each kind.
enum class MemoryKind : std::uint8_t { weights, masters, gradients, optimizer, activations, workspace, data };

inline constexpr int kMemoryKindCount = 7;

// "weights", "masters", …
std::string_view name_of(MemoryKind kind);

struct MemoryFigures {
  std::size_t live = 0;               // bytes in blocks handed out
  std::size_t peak = 0;               // highest `live` since the last reset_peak
  std::size_t reserved = 0;           // bytes obtained from the system
  std::size_t peak_reserved = 0;      // highest `reserved` since the last reset_peak
  std::uint64_t system_requests = 0;  // how often the system was asked for memory, ever
  std::array<std::size_t, kMemoryKindCount> live_by_kind{};
  std::array<std::size_t, kMemoryKindCount> peak_by_kind{};  // live_by_kind at the moment of `peak`
};

struct FreeMemory {
  std::size_t free = 0, total = 0;  // bytes
};

// Where segments come from. `acquire` returns nullptr when the system refuses.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* acquire(std::size_t bytes) = 0;
  virtual void release(void* segment, std::size_t bytes) = 0;
  virtual std::string_view name() const = 0;
  // What the system has left to give, where it can be asked.
  virtual std::optional<FreeMemory> free_memory() const { return {}; }
};

class CachingAllocator {
 public:
  // One that keeps its segments returns none before its own end: what a recording uses is not to go while
  // the recording is made.
  explicit CachingAllocator(std::unique_ptr<MemorySource> source, bool keeps_segments = false);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // At least `bytes` bytes aligned to kAlignment; nullptr for 0 bytes. Thread-safe. Throws VendorError with
  // the bytes asked for, in use and free, and advice when the system refuses even after a trim.
  void* allocate(std::size_t bytes, MemoryKind kind);
  void deallocate(void* block) noexcept;

  MemoryFigures figures() const;
  void reset_peak();

  // Returns segments without a live block to the system.
  void trim();

  // For tests of what follows: grants so many requests more and refuses the one after them, once, as when
  // memory is exhausted. Absent: refuses none.
  void refuse_after(std::optional<std::uint64_t> grants);

  static constexpr std::size_t kAlignment = 64;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The allocator of host memory; it lives as long as the process.
CachingAllocator& host_allocator();

}  // namespace tandem
