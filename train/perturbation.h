// Perturbation of initial weights by units in the last place: runs that differ only in it differ by chance,
// so their spread measures run-to-run noise.
#pragma once

#include <cstdint>

#include "nn/module.h"

namespace tandem::train {

// Moves every element of every parameter up or down by `ulps` representable numbers, in random directions
// that depend only on `seed`. Non-finite values stay.
void perturb(nn::Module& model, std::uint64_t seed, std::int64_t ulps);

}  // namespace tandem::train
