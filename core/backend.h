// Backend: a device with its services (core/device_services.h) and its kernels by family: `backend.conv()`
// has the convolutions, declared in core/kernels/conv.h.
//
// Contract of every kernel
//  - Tensors are dense, on this backend's device, and allocated by the caller. The op in autograd/ops has
//    checked shapes and dtypes.
//  - Outputs never overlap inputs unless the kernel says so.
//  - Floating storage may be f64, f32, f16 or bf16, mixed freely among inputs and outputs: arithmetic is in
//    f32 (f64 when any floating input is f64) and rounded once on store.
//  - Reductions, statistics and norms accumulate in f32 or wider, in an order that is fixed for a given
//    thread count.
//  - `accumulate` adds to the output's values, in the arithmetic type: y ← y + result.
//  - Empty tensors are legal everywhere.
#pragma once

#include "core/device_services.h"

namespace tandem {

struct AttentionKernels;
struct BoxKernels;
struct ConvKernels;
struct ElementwiseKernels;
struct ImageKernels;
struct IndexKernels;
struct MatmulKernels;
struct NormKernels;
struct PoolKernels;
struct RandomKernels;
struct ReduceKernels;
struct RnnKernels;
struct ShapeKernels;
struct SoftmaxKernels;
struct UpdateKernels;

class Backend : public DeviceServices {
 public:
  virtual AttentionKernels& attention() = 0;
  virtual BoxKernels& boxes() = 0;
  virtual ConvKernels& conv() = 0;
  virtual ElementwiseKernels& elementwise() = 0;
  virtual ImageKernels& image() = 0;
  virtual IndexKernels& index() = 0;
  virtual MatmulKernels& matmul() = 0;
  virtual NormKernels& norm() = 0;
  virtual PoolKernels& pool() = 0;
  virtual RandomKernels& random() = 0;
  virtual ReduceKernels& reduce() = 0;
  virtual RnnKernels& rnn() = 0;
  virtual ShapeKernels& shape() = 0;
  virtual SoftmaxKernels& softmax() = 0;
  virtual UpdateKernels& update() = 0;
};

// Uninitialised host memory that `device` copies from and to without waiting.
Tensor transfer_memory(const Shape& shape, DType dtype, Device device);

// The backend of a device. Throws UserError with the reason if there is none.
Backend& backend_for(Device device);

}  // namespace tandem
