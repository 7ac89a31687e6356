// Sources of segments for the allocators of a GPU.
#pragma once

#include <memory>

#include "core/allocator.h"

namespace tandem::cuda {

// Memory of device `index`; may be asked for while a stream is captured.
std::unique_ptr<MemorySource> device_memory(int index);

// Page-locked host memory, which every device copies from and to without waiting.
std::unique_ptr<MemorySource> page_locked_memory();

}  // namespace tandem::cuda
