// State of the random ops of a thread, to repeat them.
#pragma once

#include "core/random.h"

namespace tandem {

// The key that next_random_key() starts from on this thread.
RandomKey random_state();

// The same calls as after random_state() draw the same numbers again.
class RandomStateScope : ScopedValue<RandomKey> {
 public:
  explicit RandomStateScope(const RandomKey& state);
};

}  // namespace tandem
