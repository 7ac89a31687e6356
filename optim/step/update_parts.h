// An update that is divided among processes: of the flat buffers each has a range, whose moments it alone
// holds, and whose masters it gives to the others. Rajbhandari et al., "ZeRO: Memory Optimizations Toward
// Training Trillion Parameter Models", 2020 (its first stage).
#pragma once

#include <span>
#include <vector>

#include "core/partition.h"
#include "core/step_state.h"
#include "optim/flat_buffers.h"

namespace tandem::optim {

class UpdateParts {
 public:
  // Parts of about the same length, but for some thousand elements, of which number `own` is that of this
  // process. `whole`: a parameter belongs to one part, as rules with a norm of each want. Parts may be empty.
  // Throws UserError for a part that there is not.
  UpdateParts(const FlatBuffers& buffers, int parts, int own, bool whole);

  int own() const { return own_; }
  // Elements of each part, in order; they add up to the length of the buffers.
  std::span<const std::size_t> counts() const { return counts_; }
  // What of a range is in the own part, by its place in the buffers; perhaps nothing.
  UpdateRange own_of(const UpdateRange& range) const;

  // The memory that the own part is updated in: the part, or a few elements where it has none.
  Index window_length() const { return window_count_; }
  // Of a buffer of the whole length.
  Tensor window(const Tensor& buffer) const { return buffer.rows(window_first_, window_count_); }
  // own_of, by its place in the window.
  UpdateRange in_window(const UpdateRange& range) const;
  // The own part of a buffer, and of a window.
  Tensor part(const Tensor& buffer) const { return buffer.rows(first_, last_ - first_); }
  Tensor part_of_window(const Tensor& window) const {
    return window.rows(first_ - window_first_, last_ - first_);
  }
  // What lies before the own part, and behind it.
  Tensor before(const Tensor& buffer) const { return buffer.rows(0, first_); }
  Tensor behind(const Tensor& buffer) const { return buffer.rows(last_, buffer.numel() - last_); }

 private:
  int own_;
  std::vector<std::size_t> counts_;
  Index first_ = 0, last_ = 0;
  Index window_first_ = 0, window_count_ = 0;
};

}  // namespace tandem::optim
