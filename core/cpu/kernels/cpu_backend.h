// Backend of the host's CPU: oneDNN and Eigen for matrix products and some convolutions, own vectorised
// kernels for the rest, in parallel loops (core/cpu/parallel.h). Calls return when their work is done. The
// sources of a family define its kernels and its accessor.
#pragma once

#include "core/backend.h"

namespace tandem::cpu::TANDEM_LEVEL {

class CpuBackend final : public Backend {
 public:
  Device device() const override { return {}; }
  CachingAllocator& allocator() override { return host_allocator(); }
  void synchronize() override {}
  std::uint64_t record_event() override { return 0; }
  bool event_done(std::uint64_t) override { return true; }
  void wait_event(std::uint64_t) override {}
  // Nanoseconds of the steady clock.
  std::uint64_t timestamp() override;
  double seconds_between(std::uint64_t first, std::uint64_t last) override;
  void fill(const Tensor& y, double value) override;
  void copy_bytes(const Tensor& x, const Tensor& y) override;
  void cast(const Tensor& x, const Tensor& y, bool accumulate) override;
  CachingAllocator& transfer_allocator() override { return host_allocator(); }
  void upload(const Tensor& x, const Tensor& y, std::uint64_t) override { copy_bytes(x, y); }

  AttentionKernels& attention() override;
  BoxKernels& boxes() override;
  ConvKernels& conv() override;
  ElementwiseKernels& elementwise() override;
  ImageKernels& image() override;
  IndexKernels& index() override;
  MatmulKernels& matmul() override;
  NormKernels& norm() override;
  PoolKernels& pool() override;
  RandomKernels& random() override;
  ReduceKernels& reduce() override;
  RnnKernels& rnn() override;
  ShapeKernels& shape() override;
  SoftmaxKernels& softmax() override;
  UpdateKernels& update() override;
};

CpuBackend& backend();

// `tensor` in `dtype`: the tensor itself, or a converted copy in workspace.
Tensor as(const Tensor& tensor, DType dtype);

// The single object of a class of kernels, which has no state.
template <class Kernels>
Kernels& instance() {
  static Kernels kernels;
  return kernels;
}

}  // namespace tandem::cpu::TANDEM_LEVEL
