#include "core/allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <unordered_map>

#include "core/cgroup.h"
#include "core/error.h"
#include "core/guard.h"
#include "core/memory_limit.h"

namespace tandem {

namespace {

constexpr std::size_t kSmallBlock = std::size_t{1} << 20;  // requests below share small segments
constexpr std::size_t kSmallSegment = std::size_t{4} << 20;
constexpr std::size_t kLargeSegment = std::size_t{32} << 20;   // smallest segment of the large pool
constexpr std::size_t kSegmentGranule = std::size_t{2} << 20;  // one huge page
constexpr std::size_t kSmallestSplit = 4096;  // smaller remainders of a large block are not split off

// Memory that a smaller batch reduces; other kinds depend on the model's size.
constexpr bool grows_with_batch(MemoryKind kind) {
  return kind == MemoryKind::activations || kind == MemoryKind::workspace || kind == MemoryKind::data;
}

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::size_t usable_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const std::size_t physical =
      pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : SIZE_MAX;
  return std::min(physical, cgroup_limits().memory.value_or(SIZE_MAX));
}

std::atomic<std::size_t>& host_limit() {
  static std::atomic<std::size_t> limit{usable_memory()};
  return limit;
}

class HostMemory final : public MemorySource {
 public:
  void* acquire(std::size_t bytes) override {
    const std::size_t limit = host_limit();
    if (bytes > limit || held_ > limit - bytes) return nullptr;
    void* segment =
        mmap(nullptr, bytes + kSegmentGranule, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (segment == MAP_FAILED) return nullptr;
    // Keeps the part that is aligned to a huge page.
    auto address = reinterpret_cast<std::uintptr_t>(segment);
    const std::uintptr_t aligned = round_up(address, kSegmentGranule);
    if (aligned != address) munmap(segment, aligned - address);
    const std::size_t tail = address + kSegmentGranule - aligned;
    if (tail) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
    madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
    held_ += bytes;
    return reinterpret_cast<void*>(aligned);
  }
  void release(void* segment, std::size_t bytes) override {
    munmap(segment, bytes);
    held_ -= bytes;
  }
  std::string_view name() const override { return "host"; }
  std::optional<FreeMemory> free_memory() const override {
    const std::size_t limit = host_limit();
    return FreeMemory{limit - std::min(limit, held_), limit};
  }

 private:
  std::size_t held_ = 0;  // guarded by the allocator's lock
};

}  // namespace

std::string_view name_of(MemoryKind kind) {
  constexpr std::string_view names[kMemoryKindCount] = {"weights",     "masters",   "gradients", "optimizer",
                                                        "activations", "workspace", "data"};
  return names[static_cast<int>(kind)];
}

class CachingAllocator::Impl {
 public:
  Impl(std::unique_ptr<MemorySource> source, bool keeps_segments)
      : source_(std::move(source)),
        keeps_segments_(keeps_segments),
        guarded_(dynamic_cast<const HostMemory*>(source_.get()) != nullptr) {}

  ~Impl() {
    for (auto& [base, segment] : segments_) source_->release(base, segment);
    for (Block* block : all_free_) delete block;
    for (auto& [data, block] : live_) delete block;
  }

  void* allocate(std::size_t bytes, MemoryKind kind) {
    if (bytes == 0) return nullptr;
    require(bytes < (std::size_t{1} << 52), "allocator", "a request for {} bytes is not plausible", bytes);
    const std::size_t rounded = round_up(bytes, bytes < kSmallBlock ? kAlignment : kSmallestSplit);
    const guard::Extent guards = guarded_ ? guard::around(kind) : guard::Extent{};
    const std::size_t size = rounded + guards.total();
    const std::lock_guard lock(mutex_);
    if (grants_left_ && (*grants_left_)-- == 0) {
      grants_left_.reset();
      throw exhausted(size, kind);
    }
    const bool small = rounded < kSmallBlock;
    Block* block = take_free(small, size);
    if (!block) block = add_segment(small, size, kind);
    split(block, size, small);
    block->kind = kind;
    block->guards = guards.total();
    std::byte* data = block->data + guards.before;
    // Rounding extends the guard behind: a block ends with the last requested byte.
    if (block->guards) guard::lay(data, bytes, {guards.before, rounded - bytes + guards.behind}, kind);
    live_.emplace(data, block);
    account(block->size - block->guards, kind);
    return data;
  }

  void deallocate(void* data) noexcept {
    if (!data) return;
    const std::lock_guard lock(mutex_);
    const auto it = live_.find(data);
    if (it == live_.end()) std::abort();  // not from this allocator: memory is corrupt already
    Block* block = it->second;
    live_.erase(it);
    if (block->guards) guard::lift(data);
    const std::size_t size = block->size - block->guards;
    figures_.live -= size;
    figures_.live_by_kind[static_cast<int>(block->kind)] -= size;
    block = merge(block, block->previous);
    block = merge(block, block->next);
    put_free(block);
  }

  void refuse_after(std::optional<std::uint64_t> grants) {
    const std::lock_guard lock(mutex_);
    grants_left_ = grants;
  }

  MemoryFigures figures() const {
    const std::lock_guard lock(mutex_);
    return figures_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    figures_.peak = figures_.live;
    figures_.peak_by_kind = figures_.live_by_kind;
    figures_.peak_reserved = figures_.reserved;
  }

  void trim() {
    const std::lock_guard lock(mutex_);
    trim_locked();
  }

 private:
  struct Block {
    std::byte* data;
    std::size_t size;
    Block* previous;  // neighbours within the segment
    Block* next;
    bool free;
    bool small;
    MemoryKind kind;
    std::size_t guards = 0;  // guard bytes within `size`, excluded from statistics
  };
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->data < b->data;
    }
  };
  using FreeSet = std::set<Block*, BySize>;

  FreeSet& free_set(bool small) { return small ? free_small_ : free_large_; }

  void put_free(Block* block) {
    block->free = true;
    free_set(block->small).insert(block);
    all_free_.insert(block);
  }
  void remove_free(Block* block) {
    block->free = false;
    free_set(block->small).erase(block);
    all_free_.erase(block);
  }

  Block* take_free(bool small, std::size_t size) {
    Block key{nullptr, size, nullptr, nullptr, false, small, {}};
    FreeSet& set = free_set(small);
    const auto it = set.lower_bound(&key);
    if (it == set.end()) return nullptr;
    Block* block = *it;
    remove_free(block);
    return block;
  }

  VendorError exhausted(std::size_t size, MemoryKind kind) const {
    std::string left;
    if (const auto memory = source_->free_memory())
      left = fmt::format(", {} of {} bytes free", memory->free, memory->total);
    return {"allocator",
            fmt::format(
                "{} memory is exhausted: {} bytes requested ({}), {} bytes in use, {} bytes reserved{}; {}",
                source_->name(), size, name_of(kind), figures_.live, figures_.reserved, left,
                grows_with_batch(kind)
                    ? "use a smaller data.batch_size, or the same batch in several micro-batches (accumulate)"
                    : "use fewer units or layers; a smaller data.batch_size does not help")};
  }

  Block* add_segment(bool small, std::size_t size, MemoryKind kind) {
    const std::size_t bytes =
        small ? kSmallSegment : std::max(kLargeSegment, round_up(size, kSegmentGranule));
    std::size_t got = bytes;
    void* base = acquire(got);
    if (!base) {
      trim_locked();
      got = small ? kSmallSegment : round_up(size, kSegmentGranule);
      base = acquire(got);
    }
    if (!base) throw exhausted(size, kind);
    segments_.emplace(base, got);
    figures_.reserved += got;
    figures_.peak_reserved = std::max(figures_.peak_reserved, figures_.reserved);
    return new Block{static_cast<std::byte*>(base), got, nullptr, nullptr, false, small, {}};
  }

  void* acquire(std::size_t bytes) {
    ++figures_.system_requests;
    return source_->acquire(bytes);
  }

  // Frees the part of `block` beyond `size`.
  void split(Block* block, std::size_t size, bool small) {
    if (block->size - size < (small ? kAlignment : kSmallestSplit)) return;
    Block* rest = new Block{block->data + size, block->size - size, block, block->next, false, small, {}};
    if (block->next) block->next->previous = rest;
    block->next = rest;
    block->size = size;
    put_free(rest);
  }

  // Merges `block` with its neighbour if that is free; returns the merged block.
  Block* merge(Block* block, Block* neighbour) {
    if (!neighbour || !neighbour->free) return block;
    remove_free(neighbour);
    Block* first = neighbour->data < block->data ? neighbour : block;
    Block* second = first == block ? neighbour : block;
    first->size += second->size;
    first->next = second->next;
    if (second->next) second->next->previous = first;
    delete second;
    return first;
  }

  void trim_locked() {
    if (keeps_segments_) return;
    for (auto it = all_free_.begin(); it != all_free_.end();) {
      Block* block = *it++;
      if (block->previous || block->next) continue;
      remove_free(block);
      segments_.erase(block->data);
      figures_.reserved -= block->size;
      source_->release(block->data, block->size);
      delete block;
    }
  }

  void account(std::size_t size, MemoryKind kind) {
    figures_.live += size;
    figures_.live_by_kind[static_cast<int>(kind)] += size;
    if (figures_.live > figures_.peak) {
      figures_.peak = figures_.live;
      figures_.peak_by_kind = figures_.live_by_kind;
    }
  }

  mutable std::mutex mutex_;
  const std::unique_ptr<MemorySource> source_;
  const bool keeps_segments_;
  const bool guarded_;  // the CPU accesses this memory
  FreeSet free_small_, free_large_;
  std::set<Block*> all_free_;
  std::unordered_map<void*, Block*> live_;
  std::unordered_map<void*, std::size_t> segments_;
  MemoryFigures figures_;
  std::optional<std::uint64_t> grants_left_;
};

CachingAllocator::CachingAllocator(std::unique_ptr<MemorySource> source, bool keeps_segments)
    : impl_(std::make_unique<Impl>(std::move(source), keeps_segments)) {}
CachingAllocator::~CachingAllocator() = default;
void* CachingAllocator::allocate(std::size_t bytes, MemoryKind kind) { return impl_->allocate(bytes, kind); }
void CachingAllocator::deallocate(void* block) noexcept { impl_->deallocate(block); }
MemoryFigures CachingAllocator::figures() const { return impl_->figures(); }
void CachingAllocator::reset_peak() { impl_->reset_peak(); }
void CachingAllocator::trim() { impl_->trim(); }
void CachingAllocator::refuse_after(std::optional<std::uint64_t> grants) { impl_->refuse_after(grants); }

std::size_t limit_host_memory(std::size_t bytes) { return host_limit().exchange(bytes); }
std::size_t host_memory_limit() { return host_limit(); }

CachingAllocator& host_allocator() {
  // Never destroyed: tensors with static lifetime may outlive every other static object.
  static auto* allocator = new CachingAllocator(std::make_unique<HostMemory>());
  return *allocator;
}

}  // namespace tandem
