// Matrix products by cuBLASLt, with casts for unsupported types.
//
// Two 16-bit matrices of one type are multiplied directly, into their type or f32; other combinations are
// widened first, which is exact. A bias of c's type is added by the library's epilogue. The remaining cases
// (a 16-bit c of wider operands, a bias of another type than a 16-bit c, f64 with a bias) are finished in one
// pass over a wide product, so that results are rounded once.
//
// Large products whose rows are not aligned to 16 bytes (a vocabulary or width not divisible by 8) use padded
// copies of the operands, and copy a 16-bit result from padded rows; the bits are unchanged.
#include <cuda_runtime.h>

#include <type_traits>

#include "core/cuda/blas.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/padding.h"
#include "core/kernels/matmul.h"

namespace tandem::cuda {

namespace {

// ---- c = product + bias + c

// Processes packs of kWidth elements: `packs` in all, `columns` per row. `product` may be c, or null (zero).
template <class From, class To, int kWidth>
__global__ void __launch_bounds__(kThreads)
    finish_kernel(const From* product, Slot bias, To* c, Index packs, Index columns, bool accumulate) {
  await_earlier_work();
  using C = std::conditional_t<std::is_same_v<From, double> || std::is_same_v<To, double>, double, float>;
  const Index stride = Index{gridDim.x} * kThreads, step = stride % columns;
  Index p = Index{blockIdx.x} * kThreads + threadIdx.x;
  Index column = p % columns;
  for (; p < packs; p += stride) {
    Pack<From, kWidth> values{};
    Pack<To, kWidth> sums{};
    if (product != nullptr) values = reinterpret_cast<const Pack<From, kWidth>*>(product)[p];
    if (accumulate) sums = reinterpret_cast<const Pack<To, kWidth>*>(c)[p];
#pragma unroll
    for (int l = 0; l < kWidth; ++l) {
      C value = static_cast<C>(values.value[l]);
      if (bias.data != nullptr) value += load_any<C>(bias.data, bias.dtype, column * kWidth + l);
      if (accumulate) value += convert<C>(sums.value[l]);
      store(&sums.value[l], value);
    }
    reinterpret_cast<Pack<To, kWidth>*>(c)[p] = sums;
    column += step;
    if (column >= columns) column -= columns;
  }
}

template <class From>
void finish(const From* product, const Tensor& bias, const Tensor& c, bool accumulate, cudaStream_t stream) {
  const Index n = c.size(-1);
  visit_floating(c.dtype(), [&]<class To>(TypeTag<To>) {
    constexpr int kWidth = 4;
    const bool wide = n % kWidth == 0 && is_aligned(product, kWidth * sizeof(From)) &&
                      is_aligned(c.raw(), kWidth * sizeof(To));
    const Index packs = wide ? c.numel() / kWidth : c.numel();
    launch_early("matmul", wide ? finish_kernel<From, To, kWidth> : finish_kernel<From, To, 1>,
                 blocks_for(packs), kThreads, stream, product, slot_of(bias), c.data<To>(), packs,
                 wide ? n / kWidth : n, accumulate);
  });
}

void finish(const Tensor& product, const Tensor& bias, const Tensor& c, bool accumulate,
            cudaStream_t stream) {
  visit_compute(product.dtype(),
                [&]<class T>(TypeTag<T>) { finish(product.data<T>(), bias, c, accumulate, stream); });
}

// ---- Shapes

Product product_of(const Tensor& a, const Tensor& b, const Tensor& c, const MatmulOptions& options) {
  Product p;
  set_extents(p, a, b, c, options);
  return p;
}

// ---- Padded rows

// Minimum number of multiplications for which padded copies pay off: an estimate for an H100, whose kernels
// take twice as long if rows are not aligned to 16 bytes.
constexpr Index kLeastPadded = Index{1} << 30;

// Replaces operands with unaligned rows by padded copies.
void pad_operands(CudaBackend& backend, Product& p, Tensor& a, Tensor& b) {
  const auto in_rows = [&](Tensor& x, Index& stride) {
    const Index columns = x.size(-1), row = padded_row(columns);
    x = padded(backend, x, x.numel() / columns, row);
    stride = stride / columns * row;
    return row;
  };
  p.row_a = in_rows(a, p.stride_a);
  p.row_b = in_rows(b, p.stride_b);
  // If both operands are contiguous along k, k includes the padding: zeros multiply zeros.
  if (!p.transpose_a && p.transpose_b) p.k = p.row_a;
}

struct CudaMatmul final : GpuKernels<MatmulKernels> {
  using GpuKernels::GpuKernels;

  void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
              const MatmulOptions& options) override {
    if (c.numel() == 0) return;
    const bool f64 =
        a.dtype() == DType::f64 || b.dtype() == DType::f64 || (bias.defined() && bias.dtype() == DType::f64);
    const DType wide = f64 ? DType::f64 : DType::f32;
    if (product_of(a, b, c, options).k == 0) {
      if (!options.accumulate && !bias.defined()) return backend.fill(c, 0.0);
      if (bias.defined())
        finish(static_cast<const float*>(nullptr), bias, c, options.accumulate, backend.stream());
      return;
    }

    const auto as = [&](const Tensor& tensor, DType dtype) {
      if (tensor.dtype() == dtype) return tensor;
      const Tensor copy = backend.workspace(tensor.shape(), dtype);
      backend.cast(tensor, copy, false);
      return copy;
    };
    const bool narrow = !f64 && is_16bit(a.dtype()) && a.dtype() == b.dtype();
    for (DType in = narrow ? a.dtype() : wide;; in = wide) {
      Product p = product_of(a, b, c, options);
      p.in = in;
      Tensor left = as(a, in), right = as(b, in);
      const bool pads = (is_16bit(in) || (in == DType::f32 && backend.rules().allow_tf32)) &&
                        p.batch * p.m * p.n * p.k >= kLeastPadded;
      if (pads) pad_operands(backend, p, left, right);
      if (c.dtype() == wide || c.dtype() == in) {
        p.out = c.dtype();
        p.bias = bias.defined();
        p.accumulate = options.accumulate;
        Tensor offset = bias;
        bool fits = true;
        if (p.bias) {
          fits = !f64 && (c.dtype() == wide || bias.dtype() == c.dtype());
          if (fits) offset = as(bias, c.dtype());
          if (fits && !is_aligned(offset.raw())) {
            offset = backend.workspace(bias.shape(), c.dtype());
            backend.copy_bytes(bias, offset);
          }
        }
        Tensor result = c;
        if (fits && pads && is_16bit(c.dtype()) && !p.accumulate && p.n != padded_row(p.n)) {
          p.row_c = padded_row(p.n);
          result = backend.workspace({p.batch * p.m, p.row_c}, c.dtype());
        }
        if (fits && backend.blas().multiply(p, left.raw(), right.raw(), p.bias ? offset.raw() : nullptr,
                                            result.raw())) {
          if (p.row_c != 0) copy_unpadded(backend, result, c);
          return;
        }
      }
      const bool direct = c.dtype() == wide;
      const Tensor product = direct ? c : backend.workspace(c.shape(), wide);
      p.out = wide;
      p.row_c = 0;
      p.bias = false;
      p.accumulate = direct && options.accumulate;
      const bool last = in == wide;
      if (backend.blas().multiply(p, left.raw(), right.raw(), nullptr, product.raw(), last)) {
        if (!direct || bias.defined())
          finish(product, bias, c, !direct && options.accumulate, backend.stream());
        return;
      }
    }
  }
};

}  // namespace

MatmulKernels& CudaBackend::matmul() { return own<CudaMatmul>(kernels_.matmul); }

}  // namespace tandem::cuda
