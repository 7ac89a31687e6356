// Relabelled: a data set with renumbered classes.
#pragma once

#include <optional>
#include <vector>

#include "data/decorators.h"

namespace tandem::datasets {

// Renumbers labels, masks, boxes and lists of classes (data/class_order.h).
class Relabelled final : public Decorated {
 public:
  // `order`: a permutation of all labels; with boxes, the background 0 stays.
  Relabelled(DatasetPtr source, std::vector<Index> order);

  Sample get(Index index) const override;
  const BoxCorpus* box_corpus() const override { return corpus_ ? &*corpus_ : nullptr; }

 private:
  std::vector<Index> order_;
  std::optional<BoxCorpus> corpus_;  // the source's, with new labels
};

}  // namespace tandem::datasets
