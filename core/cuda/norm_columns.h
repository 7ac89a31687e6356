// Norms over the columns of [samples, rows, channels]: sums over rows, and passes that apply coefficients per
// column. Batch norm has one sample, group norm those of its input. Each has its own kernels between the
// passes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>

#include "core/cuda/numeric.h"
#include "core/kernels/math.h"
#include "core/tensor.h"

namespace tandem::cuda {

inline constexpr int kColumnWidth =
    8;  // channels per thread if the number of channels is a multiple of eight

// Mapping of thread blocks to a tensor. Thread (column, lane) of a block has `width` adjacent channels and
// every lanes-th row of a chunk, so that a warp reads runs of at least 128 bytes, or consecutive whole rows.
struct ColumnPlan {
  Index samples = 1, rows = 0, channels = 0;
  int width = 1;          // channels per thread: 8 (16 bytes of f16) or 1
  int columns = 1;        // threads of a block along the channels, at most 32
  int lanes = 1;          // threads of a block along the rows
  int column_blocks = 1;  // blocks along the channels
  Index chunk = 1;        // rows per iteration of a block
  Index chunks = 0;
  // In reduction passes slice s has the chunks s, s + slices, …, so that the last chunks read are the last in
  // memory, where the writing pass begins. In writing passes a slice has `per_slice` adjacent chunks.
  Index slices = 1, per_slice = 1;

  // Rows of a slice in a reduction pass.
  TANDEM_HD Index count(Index slice) const {
    const Index own = chunks / slices + (slice < chunks % slices ? 1 : 0);
    const bool has_last = (chunks - 1) % slices == slice;
    return own * chunk - (has_last ? chunks * chunk - rows : 0);
  }
};

// Position of a thread in a pass.
struct ColumnPlace {
  int lane;
  Index channel;
  bool active;
};
__device__ __forceinline__ ColumnPlace place_of(const ColumnPlan& p) {
  const int column = static_cast<int>(threadIdx.x) % p.columns;
  const int lane = static_cast<int>(threadIdx.x) / p.columns;
  const Index channel = (Index{blockIdx.x} * p.columns + column) * p.width;
  return {lane, channel, lane < p.lanes && channel < p.channels};
}

// Kernel variant: packed if all tensors have one type S narrower than f64 and aligned channels in multiples
// of eight; otherwise any mixture of types, computed in `compute`.
struct ColumnTypes {
  bool packed = false;
  DType compute = DType::f32;
};
// Undefined tensors are ignored.
ColumnTypes column_types(std::initializer_list<const Tensor*> tensors, Index channels);

// y = act((x-centre)·scale + offset + residual).
struct ColumnForward {
  Tensor x, residual, y;         // residual is optional
  std::uint8_t* mask = nullptr;  // optional; one bit per element
  bool relu = false;
  void* coefficients = nullptr;  // [samples, 3, channels] of the compute type: centre, scale, offset
};

// g = dy where the mask is set; dx = g·scale + (x-centre)·slope + offset; dresidual = g.
struct ColumnBackward {
  Tensor x, dy, dx, dresidual;         // dx and dresidual are optional, and may be dy itself
  const std::uint8_t* mask = nullptr;  // null: g = dy
  const void* centre = nullptr;        // [samples, channels] of the compute type
  void* coefficients = nullptr;        // [samples, 3, channels] of the compute type: scale, slope, offset
  bool frozen = false;                 // slope and offset are 0: x is not read
  bool accumulate_dx = false, accumulate_dresidual = false;
};

// The mapping of a block to columns and chunks of `batch` rows per thread, not divided into slices yet.
ColumnPlan plan_columns(Index samples, Index rows, Index channels, bool packed, int batch);
dim3 grid_of(const ColumnPlan& plan);
ColumnPlan statistics_plan(Index samples, Index rows, Index channels, ColumnTypes types, DType x);
ColumnPlan gradient_plan(Index samples, Index rows, Index channels, ColumnTypes types, DType x);

// Statistics per slice, [samples, 3, slices, channels] of the compute type: a shift near the mean (an element
// of x), the mean relative to it, and the sum of squared deviations.
void gather_statistics(const Tensor& x, const ColumnPlan& plan, ColumnTypes types, void* partial,
                       cudaStream_t stream);
// Sums per slice, [samples, 2, slices, channels] of the compute type: Σ g and Σ g·(x-centre).
void gather_gradients(const ColumnBackward& args, const ColumnPlan& plan, ColumnTypes types, void* partial,
                      cudaStream_t stream);
void write_forward(const ColumnForward& args, Index samples, Index rows, ColumnTypes types,
                   cudaStream_t stream);
void write_backward(const ColumnBackward& args, Index samples, Index rows, ColumnTypes types,
                    cudaStream_t stream);

}  // namespace tandem::cuda
