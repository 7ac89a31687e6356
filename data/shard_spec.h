// ShardSpec: which parts of every batch a source fills.
#pragma once

#include "core/partition.h"
#include "core/shape.h"

namespace tandem::datasets {

// A batch of n samples is divided into `parts` of consecutive samples, as evenly as can be: part p has those
// of part_of(n, parts, p). A source of parts first ≤ p < first + count gives them one after the other, each
// as a batch of its own.
struct ShardSpec {
  Index parts = 1;
  Index first = 0, count = 1;

  // Batch `number` of the source is part `part(number)` of the undivided source's batch `batch(number)`.
  Index batch(Index number) const { return number / count; }
  Index part(Index number) const { return first + number % count; }
  // Which samples of an undivided batch of `of` are in batch `number`.
  Range samples(Index number, Index of) const;
  // Samples of the largest part of `of`.
  Index most(Index of) const { return (of + parts - 1) / parts; }

  // Itself. Throws UserError on less than one part, and when there are no parts of this source among them.
  const ShardSpec& checked() const;
  // That of a source of this division, divided once more. Throws as checked() does, and InternalError when
  // this one has several parts already.
  const ShardSpec& into(const ShardSpec& finer) const;

  bool operator==(const ShardSpec&) const = default;
};

}  // namespace tandem::datasets
