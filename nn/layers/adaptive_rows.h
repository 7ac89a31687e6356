// Rows and targets of the clusters of an adaptive softmax.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/tensor.h"

namespace tandem::nn {

struct AdaptiveRows {
  static constexpr Index kNoClass = -1;

  struct Cluster {
    std::size_t number = 0;
    Tensor rows;    // i64 [capacity]; absent: all
    Tensor target;  // i64 [capacity]: the class within the cluster, or kNoClass
  };

  Tensor head;                    // i64 [rows]: the class, or shortlist + cluster number; kNoClass if ignored
  std::vector<Cluster> clusters;  // only those with rows
};

// Number of rows to compute for `count` >= 1 of `rows` rows: `count` rounded up to a multiple of a 32nd of
// the next power of two, so that at most 32 capacities exist.
Index capacity_of(Index count, Index rows);

// target i64 [rows]; cluster i has the classes from bounds[i] to bounds[i+1]. In host memory, rows are
// gathered by target, and padded with row 0 without a target; throws UserError for a class outside of [0,
// bounds.back()). On kShapes there are as many as for log-uniform targets, elsewhere every_row().
AdaptiveRows adaptive_rows(const Tensor& target, const std::vector<Index>& bounds,
                           std::optional<Index> ignore_index);

// Every cluster with all rows, by ops on the target's device: no size depends on its values. An invalid class
// stays invalid in the result, so that the cross entropy detects it.
AdaptiveRows every_row(const Tensor& target, const std::vector<Index>& bounds,
                       std::optional<Index> ignore_index);

}  // namespace tandem::nn
