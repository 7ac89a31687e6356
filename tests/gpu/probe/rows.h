// Rows of gpu_probe: an op of the backend at a shape of a workload, with the least bytes it moves and its
// FLOP.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/backend.h"

namespace tandem::probe {

// Asks the device for the row's work once.
using Work = std::function<void()>;

// Makes the operands of a row. Their values are noise: zeros multiply faster.
class Operands {
 public:
  Operands(Backend& backend, std::uint64_t seed) : backend_(backend), seed_(seed) {}

  Backend& backend() const { return backend_; }
  Tensor empty(const Shape& shape, DType dtype) const;
  Tensor noise(const Shape& shape, DType dtype, double deviation = 1.0);
  Tensor numbers(const Shape& shape, Index below);  // i64 in [0, below)

 private:
  Backend& backend_;
  std::uint64_t seed_;
};

struct Row {
  std::string name;    // "bn_forward 256x112x112x64 bf16"
  std::string family;  // of the backend's kernels; bench/gpu/predicted.json says what is expected of it
  double bytes = 0.0, flop = 0.0;  // at least, of one call at the shapes that `make` takes
  DType operands = DType::bf16;    // of its products
  int kernels = 1;                 // that follow one another in a call
  std::function<Work(Operands&)> make;
};

// All rows. `tiny`: the same ops at extents that an emulator gets through, under the same names.
std::vector<Row> all_rows(bool tiny);

// Extents as they are, or cut for an emulator.
class Extents {
 public:
  explicit Extents(bool tiny) : tiny_(tiny) {}
  Index operator()(Index extent, Index most) const { return tiny_ ? std::min(extent, most) : extent; }

 private:
  bool tiny_;
};

void add_image_rows(Extents cut, std::vector<Row>& rows);
void add_sequence_rows(Extents cut, std::vector<Row>& rows);
void add_step_rows(Extents cut, std::vector<Row>& rows);

inline double bytes_of(Index elements, DType dtype) {
  return static_cast<double>(elements) * static_cast<double>(size_of(dtype));
}

}  // namespace tandem::probe
