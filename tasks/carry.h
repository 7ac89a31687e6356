// Carry: tensors that a micro-batch leaves to the next one, beside the parameters: the state of a recurrent
// network over a stream that is cut into pieces.
//
// It belongs to the position in the data: it advances with it on a skipped step too, a step that is done
// again starts from what it began with, and a checkpoint holds it. An epoch begins with an empty one.
//
// Samples lie on axis 1, as in the states [L,N,H] of recurrent layers: along it carries of the parts of a
// batch are joined to that of the whole, and divided.
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

  // Of parts, in their order; those without samples are empty. Throws InternalError when parts carry
  // different names.
  static Carry joined(std::span<const Carry> parts);
  // The inverse, as evenly as datasets::Division divides a batch.
  std::vector<Carry> divided(Index parts) const;

 private:
  std::vector<datasets::Field> fields_;
};

}  // namespace tandem::tasks
