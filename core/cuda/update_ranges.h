// Common parts of the update kernels: ranges of a flat buffer as arguments, iteration over their elements,
// and the states of a step and of the loss scale.
//
// Up to kRanges ranges are passed as kernel arguments per launch and split into pieces of a fixed size, one
// per block iteration, so that many small parameters cost no more than one large one. A table with row marks
// has its own launch, with or without marks, and its pieces are whole rows. Sums then have the same bits
// either way, and no thread divides to find its row.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/backend.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/error.h"
#include "core/kernels/update.h"

namespace tandem::cuda {

struct CudaUpdate final : GpuKernels<UpdateKernels> {
  using GpuKernels::GpuKernels;

  void accumulate_loss(const Tensor& loss, double weight, const Tensor& state, const Tensor& scale) override;
  void check_gradients(const Tensor& gradient, std::span<const UpdateRange> ranges,
                       const GradientCheck& check, const Tensor& state, const Tensor& scale) override;
  void unscale(const Tensor& gradient, std::span<const UpdateRange> ranges, const UnscaleOptions& options,
               const Tensor& target, const Tensor& state, const Tensor& scale) override;
  void sanitize(const Tensor& gradient, std::span<const UpdateRange> ranges, float floor,
                const Tensor& scale) override;
  void decide_step(const StepRules& rules, const Tensor& lr_table, const Tensor& state,
                   const Tensor& scale) override;
  void update_scale(const ScaleRules& rules, const Tensor& scale) override;
  void update(const UpdateRule& rule, std::span<const UpdateRange> ranges, const UpdateBuffers& buffers,
              const Tensor& state) override;
  void commit_or_restore(const Tensor& source, const Tensor& target, const Tensor& state) override;
  void update_average(const Tensor& value, const Tensor& average, const AverageRule& rule,
                      const Tensor& state) override;
  void round_to(const Tensor& x, DType dtype) override;
  void scale_and_limit(const Tensor& x, double factor, double limit) override;
};

inline constexpr int kRanges = 176;    // per launch, so that all arguments stay below 4 KB
inline constexpr Index kPiece = 4096;  // elements

// Ranges of one launch.
struct Chunk {
  std::int32_t ranges, pieces;
  Index first[kRanges], count[kRanges];
  std::int32_t end[kRanges];  // number of pieces up to the end of each range
  std::int8_t gradient_log2[kRanges];
  Index piece;  // elements per piece
  // For a table, which is alone in its launch: see UpdateRange.
  const std::uint8_t* marks;
  Index row;
  std::int32_t rows;  // per piece
};
static_assert(sizeof(Chunk) <= 3800);

// Number of ranges in the next launch.
inline std::size_t launched_together(std::span<const UpdateRange> ranges) {
  if (ranges[0].row > 0) return 1;
  const auto table = std::ranges::find_if(ranges, [](const UpdateRange& range) { return range.row > 0; });
  return std::min<std::size_t>(kRanges, static_cast<std::size_t>(table - ranges.begin()));
}

// Calls use(chunk, its ranges) for all chunks of the ranges.
template <class Use>
void for_chunks(std::span<const UpdateRange> ranges, Index limit, const Use& use) {
  Chunk chunk;
  for (; !ranges.empty(); ranges = ranges.subspan(static_cast<std::size_t>(chunk.ranges))) {
    const auto part = ranges.first(launched_together(ranges));
    chunk.marks = part[0].marks;
    chunk.row = part[0].row;
    chunk.rows = chunk.row > 0 ? static_cast<std::int32_t>(std::max<Index>(1, kPiece / chunk.row)) : 0;
    chunk.piece = chunk.row > 0 ? chunk.rows * chunk.row : kPiece;
    chunk.ranges = static_cast<std::int32_t>(part.size());
    Index pieces = 0;
    for (std::size_t r = 0; r < part.size(); ++r) {
      const UpdateRange& range = part[r];
      ensure(range.first >= 0 && range.count >= 0 && range.first + range.count <= limit, "update",
             "range {} to {} exceeds a buffer of {} elements", range.first, range.first + range.count, limit);
      pieces += ceil_div(range.count, chunk.piece);
      chunk.first[r] = range.first;
      chunk.count[r] = range.count;
      chunk.gradient_log2[r] = range.gradient_log2;
      chunk.end[r] = static_cast<std::int32_t>(pieces);
    }
    chunk.pieces = static_cast<std::int32_t>(pieces);
    use(chunk, part);
  }
}

struct Piece {
  int range;
  Index first;
  int count;
  Index row;  // first row of the piece in a table
};

__device__ __forceinline__ Piece piece_of(const Chunk& chunk, int piece) {
  int range = 0, last = chunk.ranges - 1;  // the first range that ends after the piece
  while (range < last) {
    const int middle = (range + last) / 2;
    if (chunk.end[middle] > piece) {
      last = middle;
    } else {
      range = middle + 1;
    }
  }
  const Index offset = Index{piece - (range == 0 ? 0 : chunk.end[range - 1])} * chunk.piece;
  const Index rest = chunk.count[range] - offset;
  return {range, chunk.first[range] + offset, static_cast<int>(rest < chunk.piece ? rest : chunk.piece),
          Index{piece} * chunk.rows};
}

template <int kWidth>
using Width = std::integral_constant<int, kWidth>;

// Calls visit(Width<n>, i) for n adjacent elements from element i of the buffers on: kWidth elements if the
// buffers allow it (`packs`) and the piece is aligned, otherwise single ones.
template <int kWidth, class Visit>
__device__ __forceinline__ void walk(const Piece& piece, bool packs, const Visit& visit) {
  int done = 0;
  if (packs && piece.first % kWidth == 0) {
    done = piece.count / kWidth * kWidth;
#pragma unroll 2
    for (int i = threadIdx.x * kWidth; i < done; i += kThreads * kWidth)
      visit(Width<kWidth>{}, piece.first + i);
  }
  for (int i = done + threadIdx.x; i < piece.count; i += kThreads) visit(Width<1>{}, piece.first + i);
}

// Whether a row of the piece may have a gradient.
__device__ __forceinline__ bool any_marked(const Chunk& chunk, const Piece& piece) {
  if (chunk.marks == nullptr) return true;
  Index rest = piece.count;
  for (Index row = piece.row; rest > 0; ++row, rest -= chunk.row)
    if (chunk.marks[row] != 0) return true;
  return false;
}

// Calls use(part) for each marked row of the piece, or for the whole piece without marks.
template <class Use>
__device__ __forceinline__ void for_marked_rows(const Chunk& chunk, const Piece& piece, const Use& use) {
  const bool all = chunk.marks == nullptr;
  const int step = all ? piece.count : static_cast<int>(chunk.row);
  for (int done = 0, row = 0; done < piece.count; done += step, ++row)
    if (all || chunk.marks[piece.row + row] != 0) use(Piece{piece.range, piece.first + done, step, 0});
}

template <int kWidth, class T>
__device__ __forceinline__ Pack<T, kWidth> fetch(const T* address) {
  return *reinterpret_cast<const Pack<T, kWidth>*>(address);
}
// Stores four floats in one instruction; behind branches nvcc does not merge member stores.
template <int kWidth, class T>
__device__ __forceinline__ void put(T* address, const Pack<T, kWidth>& values) {
  if constexpr (std::is_same_v<T, float> && kWidth == 4) {
    __stwb(reinterpret_cast<float4*>(address),
           make_float4(values.value[0], values.value[1], values.value[2], values.value[3]));
  } else {
    *reinterpret_cast<Pack<T, kWidth>*>(address) = values;
  }
}

inline StepState* state_of(const Tensor& state) {
  ensure(state.dtype() == DType::u8 && state.bytes() == sizeof(StepState), "update", "{} is not a step state",
         to_string(state));
  return static_cast<StepState*>(state.raw());
}

inline ScaleState* scale_of(const Tensor& scale) {
  ensure(scale.dtype() == DType::u8 && scale.bytes() == sizeof(ScaleState), "update",
         "{} is not a loss scale", to_string(scale));
  return static_cast<ScaleState*>(scale.raw());
}

}  // namespace tandem::cuda
