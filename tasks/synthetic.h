// Tensors of synthetic batches (Task::synthetic_batch), on the CPU or of shapes only.
#pragma once

#include "core/random.h"
#include "core/tensor.h"

namespace tandem::tasks {

// Without memory, on kShapes.
Tensor shape_only(const Shape& shape, DType dtype = DType::i64);
// Int64 numbers from 0 to `below` − 1.
Tensor random_ids(const Shape& shape, Index below, RandomStream& random);
// Normal values; zeros for integers.
Tensor random_images(const Shape& shape, std::uint64_t seed, DType dtype = DType::f32);

}  // namespace tandem::tasks
