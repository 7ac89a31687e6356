// Summary of a corpus of boxes.
#pragma once

#include <string>
#include <vector>

#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

struct BoxSummary {
  Index images = 0, empty_images = 0;  // without a box
  Index boxes = 0, crowds = 0, difficult = 0;
  std::vector<Index> per_class;  // boxes by label; 0 for the background

  // "5011 images, 3 of them without a box; 15662 boxes: person 5447, chair 1432, …", the most frequent
  // classes first.
  std::string text(const BoxClasses& classes) const;
};

BoxSummary summary_of(const BoxCorpus& corpus);

// One sentence per kind of deviation, with the count, the first, and the way out if there is one.
std::vector<std::string> notes_of(const BoxTallies& tallies);

}  // namespace tandem::datasets
