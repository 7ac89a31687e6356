// How much host memory the allocator may hold.
#pragma once

#include <cstddef>

namespace tandem {

// Bytes that host_allocator() may obtain from the system; beyond them it throws VendorError, as when the
// system refuses. By default the machine's physical memory, or what its container may use of it: where the
// system promises more than it has, asking for more ends in a killed process instead of an error. Returns the
// limit before.
std::size_t limit_host_memory(std::size_t bytes);
std::size_t host_memory_limit();

}  // namespace tandem
