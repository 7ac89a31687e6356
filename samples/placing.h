// Places for things in a scene that is made up.
#pragma once

#include <span>

#include "core/random.h"
#include "data/transforms/image_view.h"

namespace tandem::datasets {

// A place within a square of `side` pixels for a thing of `to`'s extents, which has none of `earlier` overlap
// it by more than 0.15 (intersection over union); false after 20 in vain.
bool find_place(Rect& to, Index side, std::span<const Rect> earlier, RandomStream& random);

}  // namespace tandem::datasets
