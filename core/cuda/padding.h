// Matrices whose rows lie on 16 bytes, which the fastest of cuBLASLt's kernels ask for (TMA and wgmma load
// whole 16 bytes of a row).
#pragma once

#include "core/cuda/cuda_backend.h"

namespace tandem::cuda {

// Elements from row to row: 16 bytes of 16-bit elements, and a multiple of that of wider ones.
constexpr Index padded_row(Index columns) { return (columns + 7) / 8 * 8; }

// x, of rows of x.size(-1) elements, as [rows, columns] with zeros behind and below; x itself where it has
// these extents.
Tensor padded(CudaBackend& backend, const Tensor& x, Index rows, Index columns);

// The elements of y, of rows of y.size(-1), from the first columns of the first rows of x.
void copy_unpadded(CudaBackend& backend, const Tensor& x, const Tensor& y);

}  // namespace tandem::cuda
