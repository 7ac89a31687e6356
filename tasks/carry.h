// Carry: tensors that a micro-batch leaves to the next one, beside the parameters: the state of a recurrent
// network over a stream that is cut into pieces.
//
// It belongs to the position in the data: it advances with it on a skipped step too, a step that is done
// again starts from what it began with, and a checkpoint holds it. An epoch begins with an empty one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch.h"

namespace tandem::tasks {

class Carry {
 public:
  // As the micro-batch before left it; an absent tensor when it left none of that name.
  Tensor find(std::string_view name) const;
  // For the micro-batch after. No gradient flows back through it.
  void set(std::string_view name, const Tensor& value);

  std::span<const datasets::Field> fields() const { return fields_; }
  bool empty() const { return fields_.empty(); }

 private:
  std::vector<datasets::Field> fields_;
};

}  // namespace tandem::tasks
