// Matrix products by cuBLASLt: what is asked for, and the plans that answer it.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <string>

#include "core/cuda/cuda_backend.h"
#include "core/dtype.h"
#include "core/plan.h"
#include "core/shape.h"

namespace tandem::cuda {

// c[m,n] = op(a)·op(b) (+ bias[n]) (+ c) for every matrix of a batch; all are dense and row-major.
struct Product {
  Index batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  Index stride_a = 0, stride_b = 0;         // elements between the matrices of a batch; 0: one for all
  DType in = DType::f32, out = DType::f32;  // of a and b; of c and the bias
  bool bias = false, accumulate = false;
};

// "8 x f16 [m,k]·[k,n] -> f32 + bias"
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
  // `required`.
  bool multiply(const Product& product, const void* a, const void* b, const void* bias, void* c,
                bool required = false);

 private:
  struct Plan {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t left, right, result;  // column-major: c^T = op(b)^T·op(a)^T
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace;  // bytes
    cublasStatus_t status;  // of the search; success: there is an algorithm
  };
  // What pointers guarantee, in bytes, up to 16: no algorithm needs more.
  struct Alignment {
    std::uint32_t a, b, c;
  };

  std::unique_ptr<Plan> make_plan(const Product& product, const Alignment& alignment, bool tf32) const;

  CudaBackend& backend_;
  cublasLtHandle_t handle_ = nullptr;
  PlanCache<Plan> plans_;
};

}  // namespace tandem::cuda
