// oneDNN's convolutions on a team of Tandem's: primitives of one thread each work on shares of the images,
// which the threads take in turn. The library's own teams divide a filter gradient in another way, and wait
// for each other at barriers by spinning: one thread that has lost its core to another process holds up all
// of them for as long. A batch that has too few images for that is left to the library's team.
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

  // As those of the primitive of the whole batch. The shares of a filter gradient are sums of their own in
  // workspace, and are added in their order: what they add up to depends on the number of threads alone.
  void run(std::initializer_list<const void*> addresses) const;
  const onednn::Layout* layout(int argument) const { return large_.front()->layout(argument); }
  std::string implementation() const { return large_.front()->implementation(); }

 private:
  using Primitives = std::vector<std::unique_ptr<onednn::Primitive>>;  // of each thread

  void make_shares(Index shares);
  void run_share(int thread, Index share, const void* const* addresses, int count, float* sums) const;

  onednn::Pass pass_;
  onednn::Convolution problem_;
  int team_ = 1;
  Index shares_ = 1;            // of the images, of which some may have one fewer than others
  Primitives large_, smaller_;  // for a share's images
};

}  // namespace tandem::cpu::TANDEM_LEVEL
