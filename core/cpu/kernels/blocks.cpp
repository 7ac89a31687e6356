#include "core/cpu/kernels/blocks.h"

namespace tandem::cpu::TANDEM_LEVEL {

template <class T>
void load_block(const void* x, DType dtype, Index first, T* y, Index count) {
  visit_dtype(dtype, [&]<class S>(TypeTag<S>) { load_block(static_cast<const S*>(x) + first, y, count); });
}

template <class T>
void store_block(const T* x, void* y, DType dtype, Index first, Index count) {
  visit_dtype(dtype, [&]<class S>(TypeTag<S>) { store_block(x, static_cast<S*>(y) + first, count); });
}

template <class T>
void add_block(T* x, void* y, DType dtype, Index first, Index count) {
  visit_dtype(dtype, [&]<class S>(TypeTag<S>) {
    S* target = static_cast<S*>(y) + first;
    if constexpr (std::is_same_v<S, T>) {
      for (Index i = 0; i < count; ++i) target[i] += x[i];
    } else {
      T held[kBlock];
      for (Index done = 0; done < count; done += kBlock) {
        const Index n = std::min(kBlock, count - done);
        load_block(target + done, held, n);
        for (Index i = 0; i < n; ++i) x[done + i] += held[i];
      }
      store_block(x, target, count);
    }
  });
}

// clang-format off
template void load_block(const void*, DType, Index, float*, Index);
template void load_block(const void*, DType, Index, double*, Index);
template void load_block(const void*, DType, Index, std::int64_t*, Index);
template void store_block(const float*, void*, DType, Index, Index);
template void store_block(const double*, void*, DType, Index, Index);
template void store_block(const std::int64_t*, void*, DType, Index, Index);
template void add_block(float*, void*, DType, Index, Index);
template void add_block(double*, void*, DType, Index, Index);
template void add_block(std::int64_t*, void*, DType, Index, Index);
// clang-format on

}  // namespace tandem::cpu::TANDEM_LEVEL
