// The summary of a corpus of boxes, told once.
#pragma once

#include <string>
#include <vector>

#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

struct BoxSummary {
  Index images = 0, empty_images = 0;  // without a box
  Index boxes = 0, crowds = 0, difficult = 0;
  std::vector<Index> per_class;  // boxes by label; that of the background is 0

  // "5011 images, 3 of them without a box; 15662 boxes: person 5447, chair 1432, …", classes by their boxes.
  std::string text(const BoxClasses& classes) const;
};

BoxSummary summary_of(const BoxCorpus& corpus);

// What was left out or changed, a sentence each with the number, the first, and the way out where there is
// one.
std::vector<std::string> notes_of(const BoxTallies& tallies);

}  // namespace tandem::datasets
