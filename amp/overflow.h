// Where a step first went non-finite. Because a step can be replayed exactly (random numbers are a function
// of the step), nothing is checked while all goes well: a step that was skipped runs again with a check after
// every op.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "nn/module.h"

namespace tandem::amp {

struct Overflow {
  std::string op;  // "conv2d"
  std::string
      tensor;  // "output 0, f16[8,28,28,16], in layer1.0" or "gradient of layer1.0.conv1.weight, f32[…]"
  Index index = 0;     // of the first value that is infinite or NaN, row-major
  double value = 0.0;  // that value: ±inf or NaN
  bool forward = false;
  // The same step at scale 1 has no such value: the loss scale is to blame, not the model.
  bool caused_by_scale = false;
};

// "conv2d: output 0, f16[8,28,28,16], in layer1.0, is inf at index 17 in forward; the model is the cause"
std::string to_string(const Overflow& overflow);

// Replays the step: `loss` runs forward of one micro-batch and returns its f32 loss, `micro_batches` of them
// in turn, each with backward seeded with `scale`. Gradients and statistics that this writes are the caller's
// to drop (optim::Step::clear). Absent when everything was finite. Copies every result to the host: slow, for
// diagnosis only.
std::optional<Overflow> find_overflow(nn::Module& model, int micro_batches,
                                      const std::function<Tensor(int)>& loss, double scale);

}  // namespace tandem::amp
