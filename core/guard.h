// Guards: a byte pattern around memory blocks that detects out-of-bounds writes of kernels, including those
// of libraries.
//
// Every workspace in host memory always has a margin behind it. With guards on (TANDEM_GUARD=1; in every
// test), every block of host memory has guards on both sides, and oneDNN works on guarded copies of its
// arguments (core/cpu/onednn): an overrun is found right after the call, to the byte. Overruns found when a
// block is returned, where throwing is impossible, are kept for the next `check`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/allocator.h"

namespace tandem::guard {

// Behind every workspace. Overruns of kernels that gather rows may begin some bytes beyond: up to 1,264 are
// known.
inline constexpr std::size_t kMargin = std::size_t{4} << 10;
inline constexpr std::size_t kGuard = std::size_t{16} << 10;  // on either side, with guards on

// Whether TANDEM_GUARD ("" and "0" mean off) or `turn` enabled guards.
bool on();
// For later allocations. Returns the previous state.
bool turn(bool on);

// Guard bytes around a block of host memory of this kind.
struct Extent {
  std::size_t before = 0, behind = 0;
  std::size_t total() const { return before + behind; }
};
Extent around(MemoryKind kind);

// Distance from the block of the farthest overwritten guard byte.
struct Overrun {
  std::size_t before = 0, behind = 0;
  bool at_least = false;  // a guard was overwritten to its end; bytes beyond it may be, too
  explicit operator bool() const { return before != 0 || behind != 0; }
};
// "96 bytes behind", "at least 8 bytes before and 16384 bytes behind"
std::string to_string(const Overrun& overrun);

// `lay` puts guards around `bytes` at `data`, in memory reserved for them. `lift` checks the guards for the
// last time and keeps the result. Thread-safe.
void lay(void* data, std::size_t bytes, Extent extent, MemoryKind kind);
void lift(void* data) noexcept;

// For the guarded block that begins at `data`; empty for an intact or unguarded block.
Overrun overrun(const void* data);

// Throws InternalError at `where` if any guard of host memory was ever overwritten.
void check(std::string_view where);
// For tests that provoke an overrun: returns the message of `check` and clears it.
std::optional<std::string> forget();

}  // namespace tandem::guard
