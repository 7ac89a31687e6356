// What the kernels of the update family share: ranges of a flat buffer as arguments, the walk over their
// elements, and the states of a step and of the loss scale.
//
// Ranges travel as arguments of a kernel, up to kRanges in a launch, and are cut into pieces of a fixed size
// that blocks of threads take one by one, so that many small parameters cost no more than one large one.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/error.h"

namespace tandem::cuda {

inline constexpr int kRanges = 176;    // of a launch: with the other arguments they stay below 4 KB
inline constexpr Index kPiece = 4096;  // elements

// Ranges of one launch.
struct Chunk {
  std::int32_t ranges, pieces;
  Index first[kRanges], count[kRanges];
  std::int32_t end[kRanges];  // pieces of the ranges up to and with this one
};
static_assert(sizeof(Chunk) <= 3600);

// Calls use(chunk, its ranges) for as many chunks as it takes.
template <class Use>
void for_chunks(std::span<const UpdateRange> ranges, Index limit, const Use& use) {
  Chunk chunk;
  for (std::size_t at = 0; at < ranges.size(); at += kRanges) {
    const auto part = ranges.subspan(at, std::min<std::size_t>(kRanges, ranges.size() - at));
    chunk.ranges = static_cast<std::int32_t>(part.size());
    Index pieces = 0;
    for (std::size_t r = 0; r < part.size(); ++r) {
      const UpdateRange& range = part[r];
      ensure(range.first >= 0 && range.count >= 0 && range.first + range.count <= limit, "update",
             "range {} to {} exceeds a buffer of {} elements", range.first, range.first + range.count, limit);
      pieces += ceil_div(range.count, kPiece);
      chunk.first[r] = range.first;
      chunk.count[r] = range.count;
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
};

__device__ __forceinline__ Piece piece_of(const Chunk& chunk, int piece) {
  int range = 0, last = chunk.ranges - 1;  // the first whose end lies behind the piece
  while (range < last) {
    const int middle = (range + last) / 2;
    if (chunk.end[middle] > piece) {
      last = middle;
    } else {
      range = middle + 1;
    }
  }
  const Index offset = Index{piece - (range == 0 ? 0 : chunk.end[range - 1])} * kPiece;
  const Index rest = chunk.count[range] - offset;
  return {range, chunk.first[range] + offset, static_cast<int>(rest < kPiece ? rest : kPiece)};
}

template <int kWidth>
using Width = std::integral_constant<int, kWidth>;

// Calls visit(Width<n>, i) for n neighbouring elements at a time, from element i of the buffers on: kWidth of
// them where the buffers allow it (`packs`) and the piece starts at a multiple, and single ones elsewhere.
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

template <int kWidth, class T>
__device__ __forceinline__ Pack<T, kWidth> fetch(const T* address) {
  return *reinterpret_cast<const Pack<T, kWidth>*>(address);
}
// Four floats by the instruction for four: behind branches nvcc leaves the stores of members apart.
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
