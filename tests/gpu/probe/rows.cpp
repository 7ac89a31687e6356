#include "tests/gpu/probe/rows.h"

#include "core/kernels/random.h"
#include "core/random.h"

namespace tandem::probe {

Tensor Operands::empty(const Shape& shape, DType dtype) const {
  return Tensor::empty(shape, {dtype, backend_.device(), MemoryKind::workspace});
}

Tensor Operands::noise(const Shape& shape, DType dtype, double deviation) {
  const Tensor tensor = empty(shape, dtype);
  backend_.random().random_normal({.seed = ++seed_}, tensor, 0.0, deviation);
  return tensor;
}

Tensor Operands::numbers(const Shape& shape, Index below) {
  RandomStream random({.seed = ++seed_, .purpose = RandomPurpose::synthetic_data});
  std::vector<std::int64_t> values(static_cast<std::size_t>(shape.numel()));
  for (std::int64_t& value : values) value = random.below(static_cast<std::uint32_t>(below));
  return Tensor::from(values, shape, backend_.device());
}

std::vector<Row> all_rows(bool tiny) {
  std::vector<Row> rows;
  add_image_rows(Extents(tiny), rows);
  add_sequence_rows(Extents(tiny), rows);
  add_step_rows(Extents(tiny), rows);
  return rows;
}

}  // namespace tandem::probe
