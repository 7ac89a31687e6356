// Placement of objects in a composed scene.
#pragma once

#include <span>

#include "core/random.h"
#include "data/transforms/image_view.h"

namespace tandem::datasets {

// Moves `to` to a random place in a square of `side` pixels where its IoU with each of `earlier` is at most
// 0.15. Returns false after 20 failed attempts.
bool find_place(Rect& to, Index side, std::span<const Rect> earlier, RandomStream& random);

}  // namespace tandem::datasets
