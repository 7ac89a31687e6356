// oneDNN convolutions on Tandem's thread team: single-threaded primitives work on shares of the batch, which
// the threads take dynamically. oneDNN's own parallel code divides a filter gradient differently and spins at
// barriers, where one preempted thread stalls all others. Batches of few images still use oneDNN's own threads.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "core/cpu/onednn.h"

namespace tandem::cpu::TANDEM_LEVEL {

class LibraryConvolution {
 public:
  LibraryConvolution(onednn::Pass pass, const onednn::Convolution& problem);

  // Arguments as for the primitive of the whole batch. Partial filter gradients of the shares lie in
  // workspace and are added in order, so that the result depends only on the number of threads.
  void run(std::initializer_list<const void*> addresses) const;
  const onednn::Layout* layout(int argument) const { return large_.front()->layout(argument); }
  std::string implementation() const { return large_.front()->implementation(); }

 private:
  using Primitives = std::vector<std::unique_ptr<onednn::Primitive>>;  // one per thread

  void make_shares(Index shares);
  void run_share(int thread, Index share, const void* const* addresses, int count, float* sums) const;

  onednn::Pass pass_;
  onednn::Convolution problem_;
  int team_ = 1;
  Index shares_ = 1;            // of the batch; some may have one image fewer
  Primitives large_, smaller_;  // for the two sizes of shares
};

}  // namespace tandem::cpu::TANDEM_LEVEL
