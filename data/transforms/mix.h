// Mixing of pairs in a batch: mixup (Zhang et al., ICLR 2018) and CutMix (Yun et al., ICCV 2019).
//
// Position i of a batch of N is paired with N−1−i. Share, rectangle and method are drawn per sample from
// (seed, epoch, sample). Both halves of a pair are computed from the unmixed images.
#pragma once

#include <optional>
#include <span>

#include "data/transforms/transform.h"

namespace tandem::datasets {

struct MixOptions {
  struct Method {
    double alpha = 1, probability = 1;
  };
  std::optional<Method> mixup, cutmix;  // with both, a sample uses either with probability 1/2

  bool any() const { return mixup || cutmix; }
};

// The batch-level transforms of a list. Throws UserError on invalid parameters or a repeated method.
MixOptions mix_options(std::span<const TransformSpec> specs);

// Mixes images f32 [N,H,W,C] in place and writes soft targets f32 [N,classes] from `labels`. `samples` are
// the data set's indices of the positions.
struct MixArguments {
  const MixOptions& options;
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::span<const std::uint32_t> samples;
  std::span<const std::int64_t> labels;
  Extents extents;
  Index channels = 1;
  Index classes = 0;
  bool parallel = true;  // in a parallel loop
};
void mix_batch(const MixArguments& arguments, float* images, float* targets);

}  // namespace tandem::datasets
