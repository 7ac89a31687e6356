// Norms over the columns of [samples, rows, channels]: sums over the rows of each column, and passes that
// write with coefficients per column. Batch norm has one sample, group norm as many as its input; both finish
// the sums in kernels of their own. norm_columns.cu holds the bodies.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>

#include "core/cuda/numeric.h"
#include "core/kernels/math.h"
#include "core/tensor.h"

namespace tandem::cuda {

inline constexpr int kColumnWidth = 8;  // channels of a thread where they come in eights

// How a block of threads goes over a tensor. Thread (column, lane) of a block owns `width` neighbouring
// channels and every lanes-th row of a chunk, so that a warp reads runs of at least 128 bytes, or whole rows
// one after the other.
struct ColumnPlan {
  Index samples = 1, rows = 0, channels = 0;
  int width = 1;          // channels of a thread: 8 (16 bytes of f16) or 1
  int columns = 1;        // threads of a block along the channels, at most 32
  int lanes = 1;          // and along the rows
  int column_blocks = 1;  // blocks along the channels
  Index chunk = 1;        // rows that a block takes at once
  Index chunks = 0;
  // Passes that gather: slice s takes the chunks s, s + slices, …, so that what is read last is what lies
  // last in memory, where the pass that writes begins. Passes that write: `per_slice` neighbouring chunks.
  Index slices = 1, per_slice = 1;

  // Rows of a slice of a pass that gathers.
  TANDEM_HD Index count(Index slice) const {
    const Index own = chunks / slices + (slice < chunks % slices ? 1 : 0);
    const bool has_last = (chunks - 1) % slices == slice;
    return own * chunk - (has_last ? chunks * chunk - rows : 0);
  }
};

// The kernels that fit: all tensors of one type S narrower than f64, channels in eights and aligned; else any
// mixture, computed in `compute`.
struct ColumnTypes {
  bool packed = false;
  DType compute = DType::f32;
};
// Absent tensors do not count.
ColumnTypes column_types(std::initializer_list<const Tensor*> tensors, Index channels);

// y = act((x-centre)·scale + offset + residual)
struct ColumnForward {
  Tensor x, residual, y;         // residual may be absent
  std::uint8_t* mask = nullptr;  // one bit an element, written where given
  bool relu = false;
  void* coefficients = nullptr;  // [samples, 3, channels] of the compute type: centre, scale, offset
};

// g = dy where the mask passes; dx = g·scale + (x-centre)·slope + offset; dresidual = g.
struct ColumnBackward {
  Tensor x, dy, dx, dresidual;         // dx and dresidual may be absent, or dy itself
  const std::uint8_t* mask = nullptr;  // absent: g = dy
  const void* centre = nullptr;        // [samples, channels] of the compute type
  void* coefficients = nullptr;        // [samples, 3, channels] of the compute type: scale, slope, offset
  bool frozen = false;                 // slope and offset are 0: x is not read
  bool accumulate_dx = false, accumulate_dresidual = false;
};

ColumnPlan statistics_plan(Index samples, Index rows, Index channels, ColumnTypes types, DType x);
ColumnPlan gradient_plan(Index samples, Index rows, Index channels, ColumnTypes types, DType x);

// Statistics of every slice, [samples, 3, slices, channels] of the compute type: a number near the mean (an
// element of x), the mean's distance from it, and the sum of squares around the mean.
void gather_statistics(const Tensor& x, const ColumnPlan& plan, ColumnTypes types, void* partial,
                       cudaStream_t stream);
// Sums of every slice, [samples, 2, slices, channels] of the compute type: Σ g and Σ g·(x-centre).
void gather_gradients(const ColumnBackward& args, const ColumnPlan& plan, ColumnTypes types, void* partial,
                      cudaStream_t stream);
void write_forward(const ColumnForward& args, Index samples, Index rows, ColumnTypes types,
                   cudaStream_t stream);
void write_backward(const ColumnBackward& args, Index samples, Index rows, ColumnTypes types,
                    cudaStream_t stream);

}  // namespace tandem::cuda
