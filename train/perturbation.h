// Initial weights moved by units in the last place: a run that starts so differs from one that does not by
// chance alone, and so shows how much chance does.
#pragma once

#include <cstdint>

#include "nn/module.h"

namespace tandem::train {

// Moves every element of every parameter of `model` up or down by `ulps` representable numbers, at random, as
// a function of `seed` alone. Values that are not finite stay.
void perturb(nn::Module& model, std::uint64_t seed, std::int64_t ulps);

}  // namespace tandem::train
