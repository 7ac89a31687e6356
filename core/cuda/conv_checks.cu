#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/cuda/conv_checks.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/kernels/reduce.h"

namespace tandem::cuda {

namespace {

// Absolute value as bits, which have the order of the values; the smallest non-finite value is kInfinite.
template <class Bits>
inline constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
template <class T>
constexpr std::uint32_t kInfinite = std::is_same_v<T, Half>       ? 0x7c00u
                                    : std::is_same_v<T, BFloat16> ? 0x7f80u
                                                                  : 0x7f800000u;

enum Finding : unsigned { kDiffer = 1, kSeen = 2 };

// Compares a sum computed in place, the same sum computed separately, and the addend, all as bits of T:
// whether the two sums differ anywhere, and whether a finite sum differs from the addend.
template <class T, class Bits>
__global__ void __launch_bounds__(kThreads)
    compare_sums_kernel(const Bits* in_place, const Bits* apart, const Bits* addend, Index count,
                        unsigned* findings) {
  unsigned found = 0;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += Index{gridDim.x} * blockDim.x) {
    const Bits sum = in_place[i], before = addend[i];
    if (sum != apart[i]) found |= kDiffer;
    const Bits now = sum & static_cast<Bits>(~kSign<Bits>), then = before & static_cast<Bits>(~kSign<Bits>);
    if (now < kInfinite<T> && (now | then) != 0 && sum != before) found |= kSeen;
  }
  for (const unsigned finding : {kDiffer, kSeen}) {
    if (__syncthreads_or((found & finding) != 0) && threadIdx.x == 0) atomicOr(findings, finding);
  }
}

}  // namespace

std::optional<bool> same_sums(CudaBackend& backend, const Tensor& in_place, const Tensor& apart,
                              const Tensor& addend) {
  const Tensor findings = backend.workspace({1}, DType::i32);
  backend.fill(findings, 0.0);
  const auto compare = [&]<class T, class Bits>(TypeTag<T>, TypeTag<Bits>) {
    const auto bits = [](const Tensor& tensor) { return static_cast<const Bits*>(tensor.raw()); };
    launch("compare_sums", compare_sums_kernel<T, Bits>, blocks_for(addend.numel()), kThreads,
           backend.stream(), bits(in_place), bits(apart), bits(addend), addend.numel(),
           static_cast<unsigned*>(findings.raw()));
  };
  constexpr TypeTag<std::uint16_t> narrow;
  if (addend.dtype() == DType::f16) {
    compare(TypeTag<Half>{}, narrow);
  } else if (addend.dtype() == DType::bf16) {
    compare(TypeTag<BFloat16>{}, narrow);
  } else {
    compare(TypeTag<float>{}, TypeTag<std::uint32_t>{});
  }
  const Tensor on_host = Tensor::empty({1}, {.dtype = DType::i32});
  backend.copy_bytes(findings, on_host);
  const auto found = static_cast<unsigned>(on_host.data<std::int32_t>()[0]);
  if (found & kDiffer) return false;
  return found & kSeen ? std::optional(true) : std::nullopt;
}

std::optional<bool> sums_are_right(CudaBackend& backend, const Tensor& y, const Tensor& sums) {
  constexpr std::uint32_t kPositions = 0b0111;
  constexpr double kPart = 0.01;
  const Index channels = y.size(3);
  const double n = static_cast<double>(y.numel() / channels);
  const Tensor sum = backend.workspace({channels}, DType::f32);
  const Tensor squares = backend.workspace({channels}, DType::f32);
  backend.reduce().reduce(Reduction::sum, y, kPositions, sum, false);
  backend.reduce().reduce(Reduction::sum_of_squares, y, kPositions, squares, false);
  const auto on_host = [&](const Tensor& t) {
    const Tensor copy = Tensor::empty(t.shape(), {.dtype = t.dtype()});
    backend.copy_bytes(t, copy);
    return copy;
  };
  const Tensor given = on_host(sums), own_sum = on_host(sum), own_squares = on_host(squares);
  bool any = false;
  for (Index c = 0; c < channels; ++c) {
    const double mean = own_sum.data<float>()[c] / n, square = own_squares.data<float>()[c] / n;
    if (!std::isfinite(mean) || !std::isfinite(square) || square == 0.0) continue;
    any = true;
    // For a nearly constant channel only the magnitude is known.
    const double deviation = std::sqrt(std::max(square - mean * mean, 1e-4 * square));
    const double given_mean = given.data<float>()[c] / n,
                 given_square = given.data<float>()[channels + c] / n;
    if (!(std::abs(given_mean - mean) <= kPart * deviation) ||
        !(std::abs(given_square - square) <= kPart * deviation * (deviation + 2.0 * std::abs(mean))))
      return false;
  }
  return any ? std::optional(true) : std::nullopt;
}

}  // namespace tandem::cuda
