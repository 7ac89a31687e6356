// The types named in core/cuda/blas.h; the stand-in does not use them.
#pragma once

struct cublasLtContext;
using cublasLtHandle_t = cublasLtContext*;
struct cublasLtMatmulDescOpaque_t {};
struct cublasLtMatrixLayoutOpaque_t {};
struct cublasLtMatmulAlgo_t {};
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0 };
