// Matrix products by cuBLASLt: problem descriptions, plans and their choice.
#pragma once

#include <cublasLt.h>
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/cuda/cuda_backend.h"
#include "core/dtype.h"
#include "core/kernel_cache.h"
#include "core/shape.h"

namespace tandem::cuda {

// c[m,n] = op(a)·op(b) (+ bias[n]) (+ c) for each matrix of a batch, row-major; those of c are contiguous.
struct Product {
  Index batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  Index stride_a = 0,
        stride_b = 0;  // elements between the matrices of a batch; 0: one matrix for the whole batch
  Index row_a = 0, row_b = 0, row_c = 0;    // elements between stored rows; 0: dense rows
  DType in = DType::f32, out = DType::f32;  // of a and b; of c and the bias
  bool bias = false, accumulate = false;

  // Elements between stored rows.
  Index pitch_a() const { return row_a != 0 ? row_a : transpose_a ? m : k; }
  Index pitch_b() const { return row_b != 0 ? row_b : transpose_b ? k : n; }
  Index pitch_c() const { return row_c != 0 ? row_c : n; }
  // ", rows of 656, 656 and 2600"; empty if all rows are dense.
  std::string rows_text() const {
    const bool dense = row_a == 0 && row_b == 0 && row_c == 0;
    return dense ? "" : fmt::format(", rows of {}, {} and {}", pitch_a(), pitch_b(), pitch_c());
  }
};

// "8 x f16 [m,k]·[k,n] -> f32 + bias, rows of 656, 656 and 2600"
std::string to_string(const Product& product);

// "cuBLASLt 13.2.0"
std::string blas_version();

// Products of one backend, under its rules, for the one thread that uses the backend.
class Blas {
 public:
  explicit Blas(CudaBackend& backend);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // Sums are f32 (f64) and are rounded once; equal products give equal bits. The bias must be aligned to 16
  // bytes. Returns false and does nothing if cuBLASLt has no algorithm, or throws VendorError if `required`.
  // The first uncaptured call times several algorithms, if the rules allow it and the backend's algorithm
  // table has no entry; the result is added to the table.
  bool multiply(const Product& product, const void* a, const void* b, const void* bias, void* c,
                bool required = false);

 private:
  struct Algorithm {
    cublasLtMatmulAlgo_t code;
    std::size_t workspace;  // bytes
    std::string name;
  };
  struct Plan {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t left, right, result;  // column-major: c^T = op(b)^T·op(a)^T
    std::vector<Algorithm> algorithms;                 // in heuristic order, best first
    std::size_t chosen = 0;                            // index of the fastest
    bool timed = false;
    cublasStatus_t status;  // of the search; success: an algorithm exists
  };
  // Guaranteed alignment of pointers in bytes, at most 16, which suffices for every algorithm.
  struct Alignment {
    std::uint32_t a, b, c;
  };

  std::unique_ptr<Plan> make_plan(const Product& product, const Alignment& alignment, bool tf32) const;
  cublasStatus_t compute(const Product& product, Plan& plan, std::size_t algorithm, const void* a,
                         const void* b, void* c) const;
  // Whether algorithms may be timed now.
  bool may_time() const;
  // Chooses one of the named algorithms. `run` computes the product by one of them, into c or elsewhere, and
  // returns whether it succeeded.
  using Run = std::function<bool(std::size_t algorithm, void* c)>;
  std::size_t choose(Product product, const Alignment& alignment, bool tf32,
                     std::span<const std::string> names, void* c, const Run& run);

  CudaBackend& backend_;
  cublasLtHandle_t handle_ = nullptr;
  KernelCache<Plan> plans_;
};

}  // namespace tandem::cuda
