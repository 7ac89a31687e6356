// Limit of the allocator's host memory.
#pragma once

#include <cstddef>

namespace tandem {

// Maximum bytes that host_allocator() may obtain from the system; beyond them it throws VendorError, as when
// the system refuses. Default: the machine's physical memory, or its container's limit, because an
// overcommitting system kills the process instead of refusing. Returns the previous limit.
std::size_t limit_host_memory(std::size_t bytes);
std::size_t host_memory_limit();

}  // namespace tandem
