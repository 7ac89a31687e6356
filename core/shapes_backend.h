// The device `shapes`: its tensors have a shape, a type and a place in the allocator's books, and no
// elements.
//
// A model that is built there, and a step that is taken there, pass every check of shapes and types and leave
// the figures of memory that they would leave on a CPU, in no time and without the memory: the ops and the
// engine are the same, the kernels do nothing. Values cannot be asked for: Tensor::to, to_vector and item
// throw InternalError, and the addresses handed out fault when they are read.
#pragma once

#include "core/backend.h"

namespace tandem {

inline constexpr Device kShapes{DeviceType::shapes};

Backend& shapes_backend();

}  // namespace tandem
