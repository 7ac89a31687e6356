#include <cuda_runtime.h>

#include <cstdint>

#include "core/cuda/divider.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/padding.h"
#include "core/error.h"
#include "core/kernels/shape.h"

namespace tandem::cuda {

namespace {

// Word is an unsigned integer of the element size; y has `packs` packs, `in_row` of them per row.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    pad_kernel(const Word* x, Index rows, Index columns, Pack<Word>* y, std::uint32_t packs,
               Divider<std::uint32_t> in_row) {
  await_earlier_work();
  constexpr int kSize = Pack<Word>::kSize;
  for (std::uint32_t p = blockIdx.x * kThreads + threadIdx.x; p < packs; p += gridDim.x * kThreads) {
    const std::uint32_t row = in_row.quotient(p);
    const Index first = Index{p - row * in_row.divisor} * kSize;
    const Word* const from = x + row * columns + first;
    Pack<Word> values{};
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      if (row < rows && first + i < columns) values.value[i] = from[i];
    }
    y[p] = values;
  }
}

template <class Word>
void pad(const Tensor& x, const Tensor& y, cudaStream_t stream) {
  const Index columns = x.size(-1), packs = y.numel() / Pack<Word>::kSize;
  ensure(packs < Index{1} << 31, "matmul", "{} is too large for a copy in padded rows", to_string(x.shape()));
  launch_early("pad", pad_kernel<Word>, blocks_for(packs), kThreads, stream,
               static_cast<const Word*>(x.raw()), x.numel() / columns, columns,
               static_cast<Pack<Word>*>(y.raw()), static_cast<std::uint32_t>(packs),
               Divider<std::uint32_t>(y.size(-1) / Pack<Word>::kSize));
}

}  // namespace

Tensor padded(CudaBackend& backend, const Tensor& x, Index rows, Index columns) {
  if (x.size(-1) == columns && x.numel() == rows * columns) return x;
  const Tensor y = backend.workspace({rows, columns}, x.dtype());
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) { pad<MemoryWord<sizeof(T)>>(x, y, backend.stream()); });
  return y;
}

void copy_unpadded(CudaBackend& backend, const Tensor& x, const Tensor& y) {
  const Index columns = y.size(-1);
  backend.shape().strided_copy(x, {.strides = {x.size(-1), 1}}, y, {.strides = {columns, 1}},
                               {y.numel() / columns, columns}, false);
}

}  // namespace tandem::cuda
