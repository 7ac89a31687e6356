#include "data/shard_spec.h"

#include "core/error.h"

namespace tandem::datasets {

Range ShardSpec::samples(Index number, Index of) const {
  return part_of(static_cast<std::size_t>(of), static_cast<std::size_t>(parts),
                 static_cast<std::size_t>(part(number)));
}

const ShardSpec& ShardSpec::checked() const {
  require(parts >= 1, "division", "batches in {} parts, expected at least 1", parts);
  require(first >= 0 && first < parts && count >= 1 && count <= parts - first, "division",
          "{} parts from part {} on, expected parts within the {}: 0 to {}", count, first, parts, parts - 1);
  return *this;
}

const ShardSpec& ShardSpec::into(const ShardSpec& finer) const {
  ensure(parts == 1, "division", "batches in {} parts are to be divided into {}", parts, finer.parts);
  return finer.checked();
}

}  // namespace tandem::datasets
