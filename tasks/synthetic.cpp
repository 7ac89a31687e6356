#include "tasks/synthetic.h"

#include <vector>

#include "core/backend.h"
#include "core/kernels/random.h"
#include "core/shapes_backend.h"

namespace tandem::tasks {

Tensor shape_only(const Shape& shape, DType dtype) {
  return Tensor::empty(shape, {dtype, kShapes, MemoryKind::data});
}

Tensor random_ids(const Shape& shape, Index below, RandomStream& random) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(shape.numel()));
  for (auto& id : ids) id = random.below(static_cast<std::uint32_t>(below));
  return Tensor::from(ids, shape);
}

Tensor random_images(const Shape& shape, std::uint64_t seed, DType dtype) {
  const Tensor images = Tensor::zeros(shape, {.dtype = dtype, .kind = MemoryKind::data});
  if (is_floating(dtype))
    backend_for({}).random().random_normal({.seed = seed, .purpose = RandomPurpose::synthetic_data}, images,
                                           0.0, 1.0);
  return images;
}

}  // namespace tandem::tasks
