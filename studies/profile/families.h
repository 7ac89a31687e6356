// What kind of work an op is, and which of its tensors move.
#pragma once

#include <cstdint>
#include <string_view>

#include "autograd/op.h"

namespace tandem::profile {

// Those of autograd/ops, with casts apart; `other` are ops of none of them.
enum class Family : std::uint8_t {
  elementwise,
  reduce,
  matmul,
  conv,
  pool,
  norm,
  softmax,
  loss,
  index,
  shape,
  rnn,
  attention,
  boxes,
  random,
  cast,
  update,
  other
};

std::string_view name_of(Family family);

struct Traits {
  Family family = Family::other;
  // Reads of each input no more elements than it writes: a slice, a gather.
  bool selects = false;
  // An input gradient that is an output gradient's memory was handed on; elsewhere it was written in place.
  bool hands_on = false;
};

Traits traits_of(const OpInfo& op);

inline bool is_product(Family family) {
  return family == Family::matmul || family == Family::conv || family == Family::rnn;
}

}  // namespace tandem::profile
