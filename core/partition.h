// Partition of a sequence into contiguous parts of nearly equal size.
#pragma once

#include <cstddef>

namespace tandem {

struct Range {
  std::size_t first = 0, last = 0;  // first ≤ i < last

  std::size_t count() const { return last - first; }
  bool operator==(const Range&) const = default;
};

// The first (count mod parts) parts have one more than the others; parts may be empty.
inline Range part_of(std::size_t count, std::size_t parts, std::size_t part) {
  const std::size_t each = count / parts, more = count % parts;
  const std::size_t first = part * each + (part < more ? part : more);
  return {first, first + each + (part < more ? 1 : 0)};
}

}  // namespace tandem
