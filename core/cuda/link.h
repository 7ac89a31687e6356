// Communication link of one GPU: a stream, and the events that order it with the backend's stream.
#pragma once

#include <cuda_runtime_api.h>

#include "core/cuda/cuda_backend.h"
#include "core/device_link.h"

namespace tandem::cuda {

class CudaLink final : public DeviceLink {
 public:
  CudaLink(int index, CudaBackend& backend) : index_(index), backend_(backend) {}

  std::string identity() const override;
  void select() override;
  void* stream() override;
  void fork() override;
  void join() override;
  void watch(Look look) override { backend_.watch(std::move(look)); }

 private:
  int index_;
  CudaBackend& backend_;
  // Never destroyed, like the backend.
  cudaStream_t stream_ = nullptr;
  cudaEvent_t forked_ = nullptr, joined_ = nullptr;
};

}  // namespace tandem::cuda
