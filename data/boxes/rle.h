// Masks as COCO encodes them: lengths of runs of 0 and 1 in turns, the first of 0 and perhaps empty, down the
// columns from left to right (pycocotools' maskApi). Boxes need none of it; this is for who checks boxes and
// areas against the masks that they are of.
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
  // The smallest box around the pixels of 1; [0, 0, 0, 0] where there are none.
  Corners box() const;
};

// Throws UserError in the name of `where` for negative counts, and counts that do not add up to the mask's
// pixels, of which there may be kMaxPixels.
void require_sound(const RunLengths& mask, const std::string& where);

// From the compressed text: of each number groups of 5 bits, the lowest first, bit 5 set where more follow,
// plus 48; bit 4 of the last is the sign; from the fourth number on, the difference to two numbers back.
// Throws UserError in the name of `where` naming the byte that cannot be, and as require_sound.
RunLengths decode_rle(std::string_view text, Index height, Index width, const std::string& where);

}  // namespace tandem::datasets
