// State: named tensors that a model passes from one call to the next, such as recurrent states or cached keys
// and values of attention.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace tandem::models {

// Axis 1 of every tensor is the batch, as in the states [L,N,H] of recurrent layers; its rows can be
// selected, joined and divided. The other extents are the model's, and may grow between calls: a cache
// [L,N,T,D].
class State {
 public:
  struct Field {
    std::string name;
    Tensor value;
  };

  // An absent tensor if there is none of that name.
  Tensor find(std::string_view name) const;
  // Adds or replaces the tensor of that name.
  void set(std::string_view name, const Tensor& value);

  std::span<const Field> fields() const { return fields_; }
  bool empty() const { return fields_.empty(); }

  // Rows in the order of `rows`, i64 [K] on the state's device; repeats are allowed.
  State select(const Tensor& rows) const;
  // The state for the next chunk of a stream: detached, with rows that have a non-finite value set to zero,
  // so that one overflow does not spoil the rest of its stream. Integer tensors are unchanged.
  State carried() const;

  // The inverse of divided(); parts without rows are empty. Throws InternalError when names differ.
  static State joined(std::span<const State> parts);
  // As even as datasets::ShardSpec divides a batch.
  std::vector<State> divided(Index parts) const;

 private:
  std::vector<Field> fields_;
};

}  // namespace tandem::models
