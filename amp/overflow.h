// Location of the first non-finite value of a step. A step can be replayed exactly (random numbers are a
// function of the step), so nothing is checked in normal operation: a skipped step is rerun with a check
// after every op.
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
  Index index = 0;     // of the first infinite or NaN value, row-major
  double value = 0.0;  // ±inf or NaN
  bool forward = false;
  // The same step at scale 1 is finite there: the loss scale is the cause, not the model.
  bool caused_by_scale = false;
};

// "conv2d: output 0, f16[8,28,28,16], in layer1.0, is inf at index 17 in forward; the model is the cause"
std::string to_string(const Overflow& overflow);

// Replays the step: `loss` runs forward of one micro-batch and returns its f32 loss, `micro_batches` of them
// in turn, each with backward seeded with `scale`. The caller discards the resulting gradients and statistics
// (optim::Step::clear). Absent when everything is finite. Copies every result to the host; slow, for
// diagnosis only.
std::optional<Overflow> find_overflow(nn::Module& model, int micro_batches,
                                      const std::function<Tensor(int)>& loss, double scale);

}  // namespace tandem::amp
