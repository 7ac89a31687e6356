// Memory sources for a GPU's allocators.
#pragma once

#include <memory>

#include "core/allocator.h"

namespace tandem::cuda {

// Memory of device `index`; may be allocated during capture.
std::unique_ptr<MemorySource> device_memory(int index);

// Page-locked host memory, for asynchronous copies by every device.
std::unique_ptr<MemorySource> page_locked_memory();

}  // namespace tandem::cuda
