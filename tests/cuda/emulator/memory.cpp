#include "tests/cuda/emulator/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>

#include "tests/cuda/emulator/block.h"

namespace cuda_emulator {

namespace {

constexpr std::size_t kReserved = std::size_t{64} << 30;
constexpr std::size_t kPage = 4096, kAlignment = 512;

struct Block {
  char* pages;  // first page
  std::size_t page_bytes;
  std::size_t bytes;  // requested size; the block ends at the end of its pages, up to alignment
};

// All variables below are protected by the lock of the interface (stream.h).
std::map<char*, Block> blocks;             // by address
std::map<char*, std::size_t> pinned;       // address → bytes
std::map<char*, std::size_t> free_ranges;  // address → bytes; never adjacent
std::size_t capacity = std::size_t{8} << 30, allocated = 0;
int access_depth = 0;

char* reserved() {
  static char* const base = [] {
    void* memory = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("no %zu bytes of addresses for device memory", kReserved);
    free_ranges.emplace(static_cast<char*>(memory), kReserved);
    return static_cast<char*>(memory);
  }();
  return base;
}

// A file of poison that pages are mapped from, so that only written pages take memory and time.
constexpr std::size_t kPoisonBytes = std::size_t{8} << 20;

int poison_file() {
  static const int file = [] {
    const int created = memfd_create("poison", 0);
    if (created < 0 || ftruncate(created, kPoisonBytes) != 0) fail("no file for poisoned memory");
    void* const view = mmap(nullptr, kPoisonBytes, PROT_READ | PROT_WRITE, MAP_SHARED, created, 0);
    if (view == MAP_FAILED) fail("no view of poisoned memory");
    std::memset(view, kPoison, kPoisonBytes);
    munmap(view, kPoisonBytes);
    return created;
  }();
  return file;
}

void map_poison(char* pages, std::size_t bytes, int protection) {
  for (std::size_t done = 0; done < bytes; done += kPoisonBytes) {
    if (mmap(pages + done, std::min(kPoisonBytes, bytes - done), protection,
             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, poison_file(), 0) == MAP_FAILED)
      fail("%zu bytes of device memory cannot be mapped", bytes);
  }
}

std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void protect(const Block& block, int protection) {
  if (mprotect(block.pages, block.page_bytes, protection) != 0)
    fail("mprotect of %zu bytes failed", block.page_bytes);
}

std::map<char*, Block>::iterator block_at(const void* address) {
  auto* const byte = static_cast<char*>(const_cast<void*>(address));
  auto it = blocks.upper_bound(byte);
  if (it == blocks.begin()) return blocks.end();
  --it;
  return byte < it->first + it->second.bytes ? it : blocks.end();
}

}  // namespace

void* allocate_device(std::size_t bytes) {
  if (bytes > capacity || allocated > capacity - bytes) return nullptr;
  reserved();
  const std::size_t page_bytes = round_up(bytes, kPage);
  for (auto it = free_ranges.begin(); it != free_ranges.end(); ++it) {
    // The page after the allocation stays inaccessible.
    if (it->second < page_bytes + kPage) continue;
    char* const pages = it->first;
    const std::size_t rest = it->second - page_bytes - kPage;
    free_ranges.erase(it);
    if (rest > 0) free_ranges.emplace(pages + page_bytes + kPage, rest);
    const Block block{pages, page_bytes, bytes};
    char* const address = pages + (page_bytes - bytes) / kAlignment * kAlignment;
    map_poison(pages, page_bytes, access_depth > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
    blocks.emplace(address, block);
    allocated += bytes;
    return address;
  }
  return nullptr;
}

bool free_device(void* address) {
  const auto it = blocks.find(static_cast<char*>(address));
  if (it == blocks.end()) return false;
  const Block block = it->second;
  blocks.erase(it);
  allocated -= block.bytes;
  if (mmap(block.pages, block.page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
           -1, 0) == MAP_FAILED)
    fail("%zu bytes of device memory cannot be freed", block.page_bytes);
  auto range = free_ranges.emplace(block.pages, block.page_bytes + kPage).first;
  if (const auto next = std::next(range);
      next != free_ranges.end() && range->first + range->second == next->first) {
    range->second += next->second;
    free_ranges.erase(next);
  }
  if (range != free_ranges.begin()) {
    const auto previous = std::prev(range);
    if (previous->first + previous->second == range->first) {
      previous->second += range->second;
      free_ranges.erase(range);
    }
  }
  return true;
}

std::size_t allocated_device_bytes() { return allocated; }
std::size_t device_memory_bytes() { return capacity; }
void set_device_memory_bytes(std::size_t bytes) { capacity = bytes; }

void* allocate_pinned(std::size_t bytes) {
  const std::size_t size = round_up(bytes, kPage);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memset(memory, kPoison, size);
  pinned.emplace(static_cast<char*>(memory), size);
  return memory;
}

bool free_pinned(void* address) {
  const auto it = pinned.find(static_cast<char*>(address));
  if (it == pinned.end()) return false;
  munmap(address, it->second);
  pinned.erase(it);
  return true;
}

Residence residence_of(const void* address) {
  const auto* const byte = static_cast<const char*>(address);
  if (byte >= reserved() && byte < reserved() + kReserved) return Residence::device;
  auto it = pinned.upper_bound(const_cast<char*>(byte));
  if (it == pinned.begin()) return Residence::pageable;
  --it;
  return byte < it->first + it->second ? Residence::pinned : Residence::pageable;
}

bool is_valid_range(const void* address, std::size_t bytes) {
  if (residence_of(address) != Residence::device) return true;
  const auto it = block_at(address);
  return it != blocks.end() && static_cast<const char*>(address) + bytes <= it->first + it->second.bytes;
}

void hide_device_memory() {
  for (const auto& [address, block] : blocks) protect(block, PROT_NONE);
}
void show_device_memory() {
  for (const auto& [address, block] : blocks) protect(block, PROT_READ | PROT_WRITE);
}

DeviceAccess::DeviceAccess() {
  if (access_depth++ == 0) show_device_memory();
}

DeviceAccess::~DeviceAccess() {
  if (--access_depth == 0) hide_device_memory();
}

}  // namespace cuda_emulator
