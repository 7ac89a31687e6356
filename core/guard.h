// Guards: bytes of a known pattern around memory that kernels write, which show a kernel that writes beyond
// what it was given. No kernel is trusted with memory, a library's least of all.
//
// Every workspace in host memory has a margin behind it, always. Where guards are on (TANDEM_GUARD=1; in
// every test), every block of host memory has guards before and behind it, and oneDNN works on guarded copies
// of its arguments (core/cpu/onednn): a write beyond is found after the very call, to the byte. What is found
// when a block is returned, where nothing may be thrown, is kept for the next `check`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/allocator.h"

namespace tandem::guard {

// Behind a workspace, always. Kernels that gather rows skip some bytes first: up to 1,264 are known.
inline constexpr std::size_t kMargin = std::size_t{4} << 10;
inline constexpr std::size_t kGuard = std::size_t{16} << 10;  // on either side, where guards are on

// Whether TANDEM_GUARD asks for guards ("" and "0" do not), or `turn` did.
bool on();
// For memory that is asked for from now on. Returns what was.
bool turn(bool on);

// Bytes that a block of host memory of this kind has around it.
struct Extent {
  std::size_t before = 0, behind = 0;
  std::size_t total() const { return before + behind; }
};
Extent around(MemoryKind kind);

// How far from a block the farthest byte that was overwritten lies, as far as its guards reach.
struct Overrun {
  std::size_t before = 0, behind = 0;
  bool at_least = false;  // a guard was overwritten to its end: what lies beyond it may have been, too
  explicit operator bool() const { return before != 0 || behind != 0; }
};
// "96 bytes behind", "at least 8 bytes before and 16384 bytes behind"
std::string to_string(const Overrun& overrun);

// Guards `bytes` at `data`; the memory around them is there for it. `lift` looks at the guards for the last
// time and keeps what it finds. Thread-safe.
void lay(void* data, std::size_t bytes, Extent extent, MemoryKind kind);
void lift(void* data) noexcept;

// Of the guarded block that begins at `data`; nothing for one that is whole, or has no guards.
Overrun overrun(const void* data);

// Throws InternalError, at `where`, when any guard of host memory was overwritten; from then on every time.
void check(std::string_view where);
// Tests go on after they have provoked what `check` says: returns it, and forgets it.
std::optional<std::string> forget();

}  // namespace tandem::guard
