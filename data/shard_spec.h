// ShardSpec: the parts of each batch that a source fills.
#pragma once

#include "core/partition.h"
#include "core/shape.h"

namespace tandem::datasets {

// A batch of n samples is divided into `parts` ranges of consecutive samples, as evenly as possible: part p
// has those of part_of(n, parts, p). A source of parts first ≤ p < first + count returns each as its own
// batch.
struct ShardSpec {
  Index parts = 1;
  Index first = 0, count = 1;

  // Batch `number` of the source is part `part(number)` of the undivided source's batch `batch(number)`.
  Index batch(Index number) const { return number / count; }
  Index part(Index number) const { return first + number % count; }
  // The samples in batch `number`, of an undivided batch of `of` samples.
  Range samples(Index number, Index of) const;
  // Samples in the largest part of `of`.
  Index most(Index of) const { return (of + parts - 1) / parts; }

  // Returns itself. Throws UserError unless 0 ≤ first < first + count ≤ parts.
  const ShardSpec& checked() const;
  // The division of a source of this division. Throws as checked() does, and InternalError when this one
  // already has several parts.
  const ShardSpec& into(const ShardSpec& finer) const;

  bool operator==(const ShardSpec&) const = default;
};

}  // namespace tandem::datasets
