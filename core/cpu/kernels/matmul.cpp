// Matrix products. f32 and bf16 use oneDNN, f64 and small products Eigen, f16 AMX tiles if the CPU has them.
// Other dtypes are widened and rounded once.
#include "core/kernels/matmul.h"

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/gemm.h"
#include "core/cpu/kernels/matmul_library.h"
#include "core/cpu/kernels/matmul_tiles.h"
#include "core/cpu/level.h"
#include "core/cpu/onednn.h"
#include "core/kernel_cache.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

using onednn::Matmul;

// Products with fewer multiplications use Eigen; a call of oneDNN costs about as much.
constexpr Index kSmallProduct = 32 * 32 * 32;

Matmul problem_of(const Tensor& a, const Tensor& b, const Tensor& c, const MatmulOptions& options) {
  Matmul p{};
  set_extents(p, a, b, c, options);
  p.accumulate = options.accumulate;
  p.lda = a.size(-1);
  p.ldb = b.size(-1);
  p.ldc = p.n;
  return p;
}

template <class T>
void add_bias(const Tensor& bias, const Tensor& c) {
  const Index n = bias.numel();
  const T* from = bias.data<T>();
  T* to = c.data<T>();
  for (Index i = 0; i < c.numel(); i += n) {
    for (Index j = 0; j < n; ++j) to[i + j] += from[j];
  }
}

template <class T>
void with_eigen(const Matmul& p, const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c) {
  for (Index i = 0; i < p.batch; ++i) {
    gemm(p.m, p.n, p.k, Operand<T>{a.data<T>() + i * p.stride_a, p.lda, p.transpose_a},
         Operand<T>{b.data<T>() + i * p.stride_b, p.ldb, p.transpose_b}, c.data<T>() + i * p.m * p.n, p.n,
         p.accumulate);
  }
  if (bias.defined()) add_bias<T>(bias, c);
}

const LibraryProduct& plan_of(const Matmul& p) {
  static KernelCache<LibraryProduct> plans;
  return plans.get(
      KernelKey(p.batch, p.m, p.n, p.k, p.transpose_a, p.transpose_b, p.lda, p.ldb, p.ldc, p.stride_a,
                p.stride_b, p.dtype, p.result, p.bias, p.accumulate, p.packed_b, threads()),
      [&] { return std::make_unique<LibraryProduct>(p); });
}

constexpr Index kRows = 8, kColumns = 48;  // of a block of oneDNN's gemm

// Whether oneDNN's gemm is faster than its matmul primitive. With AVX-512 the primitive does not pack b, and
// is slowest where the rows of b are some KiB apart; it is faster for a narrow b if a is transposed. Below
// AVX-512 it calls the same gemm. Bounds were found by timing both on an Intel Xeon with AMX.
bool prefers_gemm([[maybe_unused]] const Matmul& p) {
#ifdef __AVX512F__
  constexpr Index kWide = 1024, kHigh = 512;
  const Index blocks = (p.m + kRows - 1) / kRows * ((p.n + kColumns - 1) / kColumns);
  return blocks >= threads() && p.batch == 1 && !p.bias && (!p.transpose_a || (p.n >= kWide && p.m >= kHigh));
#else
  return false;
#endif
}

void with_gemm(const Matmul& p, const float* a, const float* b, float* c) {
  const ProductParts parts(p, threads(), ProductParts::Shape::square, kRows, kColumns);
  parallel_shares(threads(), parts.count(), [&](Index i) {
    const auto [batch, m, n] = parts.part(i);
    Matmul own = p;
    own.m = m.count();
    own.n = n.count();
    onednn::gemm(own, a + m.first * (p.transpose_a ? 1 : p.lda), b + n.first * (p.transpose_b ? p.ldb : 1),
                 c + m.first * p.ldc + n.first);
  });
}

#if defined(TANDEM_AMX)
// Whether AMX tiles of our own multiply operands of a 16-bit dtype. For bf16 oneDNN's are faster unless lines
// of the cache hold parts of two rows, or an operand is long (bench_matmul).
bool prefers_tiles(const Matmul& p, DType dtype) {
  constexpr Index kUses = 32;  // of an element, for which its copy pays
  constexpr Index kLong = 4096;
  if (level() != Level::amx || p.batch != 1 || p.k == 0 || p.m < kUses || p.n < kUses) return false;
  return dtype == DType::f16 || p.n >= kLong || p.k >= kLong || p.lda % kTileDepth != 0 ||
         p.ldb % kTileDepth != 0;
}
#endif

struct CpuMatmul final : MatmulKernels {
  void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
              const MatmulOptions& options) override {
    if (c.numel() == 0) return;
    Matmul p = problem_of(a, b, c, options);
    p.bias = bias.defined();
    const bool f64 =
        a.dtype() == DType::f64 || b.dtype() == DType::f64 || (p.bias && bias.dtype() == DType::f64);
    const bool small = p.batch * p.m * p.n * p.k <= kSmallProduct;
#if defined(TANDEM_AMX)
    if (!f64 && !small && is_16bit(a.dtype()) && a.dtype() == b.dtype() &&
        (c.dtype() == a.dtype() || c.dtype() == DType::f32) && prefers_tiles(p, a.dtype())) {
      p.dtype = a.dtype();
      p.result = c.dtype();
      const Tensor offset = as(bias, DType::f32);
      return multiply_in_tiles(p, a.raw(), b.raw(), p.bias ? offset.data<float>() : nullptr, c.raw());
    }
#endif
    const bool bf16 =
        !f64 && !small && a.dtype() == DType::bf16 && b.dtype() == DType::bf16 && onednn::multiplies_bf16();
    const DType wide = f64 ? DType::f64 : DType::f32;
    p.dtype = bf16 ? DType::bf16 : wide;
    // 16-bit accumulation sums in f32 and rounds once. oneDNN would round the product first.
    p.result = bf16 && c.dtype() == DType::bf16 && !p.accumulate ? DType::bf16 : wide;
    const bool direct = c.dtype() == p.result;
    const bool add_later = !direct && p.accumulate;
    if (add_later) p.accumulate = false;
    const Tensor out = direct ? c : workspace(c.shape(), p.result);
    const Tensor left = as(a, p.dtype), right = as(b, p.dtype), offset = as(bias, wide);
    if (f64) {
      with_eigen<double>(p, left, right, offset, out);
    } else if (small || p.k == 0) {
      with_eigen<float>(p, left, right, offset, out);
    } else if (p.dtype == DType::f32 && prefers_gemm(p)) {
      with_gemm(p, left.data<float>(), right.data<float>(), out.data<float>());
    } else {
      plan_of(p).run(left.raw(), right.raw(), p.bias ? offset.raw() : nullptr, out.raw());
    }
    if (!direct) backend().cast(out, c, add_later);
  }
};

}  // namespace

MatmulKernels& CpuBackend::matmul() { return instance<CpuMatmul>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
