// State: named tensors that a model passes from one call to the next: the cells of a recurrent network, the
// cached keys and values of attention.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace tandem::models {

// The batch is axis 1 of every tensor, as in the states [L,N,H] of recurrent layers; rows of it are selected,
// joined and divided. The other extents are the model's, and may grow from call to call: a cache [L,N,T,D].
class State {
 public:
  struct Field {
    std::string name;
    Tensor value;
  };

  // An absent tensor when there is none of that name.
  Tensor find(std::string_view name) const;
  // Replaces the tensor of that name, or adds it.
  void set(std::string_view name, const Tensor& value);

  std::span<const Field> fields() const { return fields_; }
  bool empty() const { return fields_.empty(); }

  // Rows in the order of `rows`, i64 [K] on the state's device; a row may be taken several times.
  State select(const Tensor& rows) const;
  // For the next piece of a stream: without gradients, and with zeros in every row that has a value which is
  // not finite, so that one overflow does not spoil the rest of its stream. Integer tensors stay.
  State carried() const;

  // The inverse of divided(); parts without rows are empty. Throws InternalError when names differ.
  static State joined(std::span<const State> parts);
  // As evenly as datasets::ShardSpec divides a batch.
  std::vector<State> divided(Index parts) const;

 private:
  std::vector<Field> fields_;
};

}  // namespace tandem::models
