// Row lengths of sequences as arguments of ops: i64 [N] in host memory, or absent.
#pragma once

#include "core/error.h"
#include "core/tensor.h"

namespace tandem::ops {

// Throws UserError unless there are `rows` lengths, each in [0,most].
inline void check_lengths(const char* op, const Tensor& lengths, Index rows, Index most) {
  if (!lengths.defined()) return;
  require(lengths.device() == Device{} && lengths.dtype() == DType::i64 && lengths.shape() == Shape{rows}, op,
          "lengths must be i64 [{}] in host memory, got {} on {}", rows, to_string(lengths),
          to_string(lengths.device()));
  const std::int64_t* length = lengths.data<std::int64_t>();
  for (Index row = 0; row < rows; ++row) {
    require(length[row] >= 0 && length[row] <= most, op, "length {} of row {} lies outside [0,{}]",
            length[row], row, most);
  }
}

}  // namespace tandem::ops
