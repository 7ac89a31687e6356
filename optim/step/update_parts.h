// Update sharded over processes: each holds the moments of one range of the flat buffers and sends its
// masters to the others. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models", 2020 (its first stage).
#pragma once

#include <span>
#include <vector>

#include "core/partition.h"
#include "core/step_state.h"
#include "optim/flat_buffers.h"

namespace tandem::optim {

class UpdateParts {
 public:
  // Parts of about equal length (within some thousand elements); `own` is the number of this process's part.
  // `whole`: each parameter belongs to one part, as rules with a norm per parameter need. Parts may be empty.
  // Throws UserError for an `own` out of range.
  UpdateParts(const FlatBuffers& buffers, int parts, int own, bool whole);

  int own() const { return own_; }
  // Elements of each part, in order; they sum to the length of the buffers.
  std::span<const std::size_t> counts() const { return counts_; }
  // The part of a range within the own part, in buffer coordinates; may be empty.
  UpdateRange own_of(const UpdateRange& range) const;

  // Length of the updated memory: the own part, or a few elements if it is empty.
  Index window_length() const { return window_count_; }
  // The window of a buffer of whole length.
  Tensor window(const Tensor& buffer) const { return buffer.rows(window_first_, window_count_); }
  // own_of in window coordinates.
  UpdateRange in_window(const UpdateRange& range) const;
  // The own part of a buffer, and of a window.
  Tensor part(const Tensor& buffer) const { return buffer.rows(first_, last_ - first_); }
  Tensor part_of_window(const Tensor& window) const {
    return window.rows(first_ - window_first_, last_ - first_);
  }
  // The ranges before and after the own part.
  Tensor before(const Tensor& buffer) const { return buffer.rows(0, first_); }
  Tensor behind(const Tensor& buffer) const { return buffer.rows(last_, buffer.numel() - last_); }

 private:
  int own_;
  std::vector<std::size_t> counts_;
  Index first_ = 0, last_ = 0;
  Index window_first_ = 0, window_count_ = 0;
};

}  // namespace tandem::optim
