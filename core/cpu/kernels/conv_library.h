// oneDNN's convolutions in shares: single-threaded primitives compute images, or strips of rows if the batch
// has too few. Threads inside a primitive would wait for each other at spinning barriers, where one preempted
// thread stalls all others.
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
  const onednn::Layout* layout(int argument) const { return primitives_.front().front()->layout(argument); }
  std::string implementation() const { return primitives_.front().front()->implementation(); }

 private:
  // First image and rows of x and y of a share, and the primitives of its size.
  struct Share {
    Index image, x_row, y_row;
    std::size_t size;
  };

  void divide(Index images, Index strips);
  const void* at(int argument, int count, const void* address, const Share& share) const;
  void run_share(int thread, const Share& share, const void* const* addresses, int count, float* sums) const;

  onednn::Pass pass_;
  onednn::Convolution problem_;
  int team_ = 1;
  std::vector<Share> shares_;
  std::vector<onednn::Convolution> sizes_;
  std::vector<std::vector<std::unique_ptr<onednn::Primitive>>> primitives_;  // of each size, one per thread
};

}  // namespace tandem::cpu::TANDEM_LEVEL
