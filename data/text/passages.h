// Passages: the pieces of documents that are the samples of a masked language model.
#pragma once

#include <memory>
#include <vector>

#include "data/text/packed_ids.h"

namespace tandem::datasets {

struct Passages {
  struct Place {
    std::size_t first = 0;  // of `ids`
    Index count = 0;
  };

  std::shared_ptr<const PackedIds> ids;
  std::vector<Place> places;

  Index size() const { return static_cast<Index>(places.size()); }
};

// Documents of `ids`, each of which `end` follows, in parts of as equal length as possible, of at most
// `longest` ids. Parts of fewer than `least` ids are left out.
Passages passages_of(std::shared_ptr<const PackedIds> ids, std::int32_t end, Index longest, Index least = 1);

}  // namespace tandem::datasets
