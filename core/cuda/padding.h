// Matrices with rows aligned to 16 bytes, the unit of TMA and wgmma in cuBLASLt's fastest kernels.
#pragma once

#include "core/cuda/cuda_backend.h"

namespace tandem::cuda {

// Elements between rows: multiples of 16 bytes for 16-bit and wider types.
constexpr Index padded_row(Index columns) { return (columns + 7) / 8 * 8; }

// x, with rows of x.size(-1) elements, padded with zeros to [rows, columns]; x itself if it has this size.
Tensor padded(CudaBackend& backend, const Tensor& x, Index rows, Index columns);

// Fills y with the first columns of the first rows of x.
void copy_unpadded(CudaBackend& backend, const Tensor& x, const Tensor& y);

}  // namespace tandem::cuda
