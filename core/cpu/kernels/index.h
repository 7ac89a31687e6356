// Index kernels of one level: shared by the sources of the family.
#pragma once

#include "core/kernels/index.h"

namespace tandem::cpu::TANDEM_LEVEL {

struct CpuIndex final : IndexKernels {
  void gather(const Tensor& x, const Tensor& index, int axis, const Tensor& y) override;
  void scatter_add(const Tensor& src, const Tensor& index, int axis, const Tensor& y) override;
  void index_select(const Tensor& x, const Tensor& index, int axis, const Tensor& y, const char* op) override;
  void index_add(const Tensor& src, const Tensor& index, int axis, const Tensor& y,
                 std::optional<Index> skip) override;
  void mark_rows(const Tensor& index, const Tensor& marks, std::optional<Index> skip) override;
  void clear_rows(const Tensor& x, const Tensor& marks) override;
  void one_hot(const Tensor& index, const Tensor& y) override;
  void topk(const Tensor& x, Index k, int axis, bool largest, const Tensor& values,
            const Tensor& indices) override;
};

}  // namespace tandem::cpu::TANDEM_LEVEL
