// Choice of cuBLASLt's algorithm for a product, from the algorithm table or by timing.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include "core/cuda/blas.h"
#include "core/cuda/capture.h"
#include "core/cuda/launch.h"
#include "core/cuda/search.h"
#include "core/error.h"

namespace tandem::cuda {

namespace {

// Bytes of the operands and the result.
std::int64_t bytes_of_product(const Product& p) {
  const auto matrices = [&](Index stride) { return stride == 0 ? Index{1} : p.batch; };
  const Index operands = matrices(p.stride_a) * p.m * p.k + matrices(p.stride_b) * p.k * p.n;
  return operands * static_cast<Index>(size_of(p.in)) +
         p.batch * p.m * p.n * static_cast<Index>(size_of(p.out));
}

}  // namespace

bool Blas::may_time() const {
  const Rules& rules = backend_.rules();
  return rules.tune && !rules.deterministic && !is_captured(backend_.stream());
}

std::size_t Blas::choose(Product p, const Alignment& alignment, bool tf32, std::span<const std::string> names,
                         void* c, const Run& run) {
  Tensor copy;  // of c, since timing must not accumulate into c
  if (p.accumulate) {
    try {
      // From the start of the first row to the end of the last.
      copy = backend_.workspace({(p.batch * p.m - 1) * p.pitch_c() + p.n}, p.out);
    } catch (const VendorError&) {  // not enough memory for timing
      return 0;
    }
    check(cudaMemcpyAsync(copy.raw(), c, copy.bytes(), cudaMemcpyDeviceToDevice, backend_.stream()),
          "cudaMemcpyAsync");
    c = copy.raw();
    p.accumulate = false;
  }
  const std::string problem = fmt::format(
      "matmul: {}{}{}, on {}, {} and {} bytes", to_string(p),
      p.batch > 1 ? fmt::format(", {} and {} elements apart", p.stride_a, p.stride_b) : std::string(),
      p.in == DType::f32 && !tf32 ? ", no TF32" : "", alignment.a, alignment.b, alignment.c);
  return choose_algorithm(backend_, problem, names, bytes_of_product(p),
                          [&](std::size_t algorithm) { return run(algorithm, c); });
}

}  // namespace tandem::cuda
