// The types that core/cuda/blas.h names. The stand-in for the library has no use for them.
#pragma once

struct cublasLtContext;
using cublasLtHandle_t = cublasLtContext*;
struct cublasLtMatmulDescOpaque_t {};
struct cublasLtMatrixLayoutOpaque_t {};
struct cublasLtMatmulAlgo_t {};
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0 };
