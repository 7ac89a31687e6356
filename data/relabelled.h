// A data set whose classes have other numbers.
#pragma once

#include <optional>
#include <vector>

#include "data/decorators.h"

namespace tandem::datasets {

// Labels, masks, boxes and the lists of classes in the order of others (data/class_order.h).
class Relabelled final : public Decorated {
 public:
  // `order`: a permutation of all labels; with boxes the background, 0, stays.
  Relabelled(DatasetPtr source, std::vector<Index> order);

  Sample get(Index index) const override;
  const BoxCorpus* box_corpus() const override { return corpus_ ? &*corpus_ : nullptr; }

 private:
  std::vector<Index> order_;
  std::optional<BoxCorpus> corpus_;  // the source's, with these labels
};

}  // namespace tandem::datasets
