// Matrix products by cuBLASLt: what is asked for, and the plans that answer it.
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

// c[m,n] = op(a)·op(b) (+ bias[n]) (+ c) for every matrix of a batch; all are row-major, and those of c lie
// one behind the other.
struct Product {
  Index batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  Index stride_a = 0, stride_b = 0;         // elements between the matrices of a batch; 0: one for all
  Index row_a = 0, row_b = 0, row_c = 0;    // elements from row to row as stored; 0: rows are dense
  DType in = DType::f32, out = DType::f32;  // of a and b; of c and the bias
  bool bias = false, accumulate = false;

  // Elements from row to row as stored.
  Index pitch_a() const { return row_a != 0 ? row_a : transpose_a ? m : k; }
  Index pitch_b() const { return row_b != 0 ? row_b : transpose_b ? k : n; }
  Index pitch_c() const { return row_c != 0 ? row_c : n; }
  // ", rows of 656, 656 and 2600"; empty where all are dense
  std::string rows_text() const {
    const bool dense = row_a == 0 && row_b == 0 && row_c == 0;
    return dense ? "" : fmt::format(", rows of {}, {} and {}", pitch_a(), pitch_b(), pitch_c());
  }
};

// "8 x f16 [m,k]·[k,n] -> f32 + bias, rows of 656, 656 and 2600"
std::string to_string(const Product& product);

// "cuBLASLt 13.2.0"
std::string blas_version();

// Products of one backend, under its rules. Used by the one thread that drives it.
class Blas {
 public:
  explicit Blas(CudaBackend& backend);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // Sums are formed in f32 (f64) and rounded once; the same product gives the same bits. The bias lies on 16
  // bytes. False, and nothing done, when cuBLASLt has no algorithm for the product; a VendorError where it is
  // `required`. At a product's first call that is not captured some of its algorithms are timed, where the
  // rules allow it; the backend's table of algorithms is told, and asked first.
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
    std::vector<Algorithm> algorithms;                 // as the heuristics put them, best first
    std::size_t chosen = 0;                            // by timing
    bool timed = false;
    cublasStatus_t status;  // of the search; success: there is an algorithm
  };
  // What pointers guarantee, in bytes, up to 16: no algorithm needs more.
  struct Alignment {
    std::uint32_t a, b, c;
  };

  std::unique_ptr<Plan> make_plan(const Product& product, const Alignment& alignment, bool tf32) const;
  cublasStatus_t compute(const Product& product, Plan& plan, std::size_t algorithm, const void* a,
                         const void* b, void* c) const;
  // Whether algorithms may be chosen by timing now.
  bool may_time() const;
  // Which of the algorithms of these names is to be taken; `run` computes the product by one of them, into c
  // or elsewhere, and says whether it could.
  using Run = std::function<bool(std::size_t algorithm, void* c)>;
  std::size_t choose(Product product, const Alignment& alignment, bool tf32,
                     std::span<const std::string> names, void* c, const Run& run);

  CudaBackend& backend_;
  cublasLtHandle_t handle_ = nullptr;
  KernelCache<Plan> plans_;
};

}  // namespace tandem::cuda
