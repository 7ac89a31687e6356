#include "data/text/passages.h"

#include <algorithm>

#include "core/error.h"
#include "core/partition.h"

namespace tandem::datasets {

Passages passages_of(std::shared_ptr<const PackedIds> ids, std::int32_t end, Index longest, Index least) {
  require(longest >= 1 && least >= 1 && least <= longest, "passages",
          "passages of {} to {} ids, expected at least one, and no less than the least", least, longest);
  Passages passages{.ids = std::move(ids), .places = {}};
  std::size_t first = 0;
  const std::size_t all = passages.ids->size();
  for (std::size_t i = 0; i <= all; ++i) {
    if (i < all && (*passages.ids)[i] != end) continue;
    const std::size_t count = i - first, parts = (count + static_cast<std::size_t>(longest) - 1) /
                                                 static_cast<std::size_t>(longest);
    for (std::size_t part = 0; part < parts; ++part) {
      const Range range = part_of(count, parts, part);
      if (static_cast<Index>(range.count()) >= least)
        passages.places.push_back({first + range.first, static_cast<Index>(range.count())});
    }
    first = i + 1;
  }
  return passages;
}

}  // namespace tandem::datasets
