// State of the random ops of a thread, to repeat them.
#pragma once

#include "core/random.h"

namespace tandem {

// The key that next_random_key() starts from on this thread.
RandomKey random_state();

// Scope in which random ops draw the numbers that follow `state` again.
class RandomStateScope : ScopedValue<RandomKey> {
 public:
  explicit RandomStateScope(const RandomKey& state);
};

}  // namespace tandem
