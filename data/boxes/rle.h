// COCO's run-length encoding of masks: lengths of alternating runs of 0 and 1, the first of 0 and possibly
// empty, down the columns from left to right (pycocotools' maskApi). Training does not use it; it checks
// boxes and areas against masks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

struct RunLengths {
  Index height = 0, width = 0;
  std::vector<Index> counts;

  Index area() const;  // pixels of 1
  // The bounding box of the pixels of 1; [0, 0, 0, 0] if there are none.
  Corners box() const;
};

// Throws UserError in the name of `where` for negative counts, and for counts that do not add up to the
// mask's pixels, at most kMaxPixels.
void require_sound(const RunLengths& mask, const std::string& where);

// Decodes compressed text. A number is groups of 5 bits, the lowest first, plus 48; bit 5 is set if more
// follow; bit 4 of the last is the sign. From the fourth number on, it is the difference to the number two
// before. Throws UserError in the name of `where` that names an invalid byte, and as require_sound.
RunLengths decode_rle(std::string_view text, Index height, Index width, const std::string& where);

}  // namespace tandem::datasets
