// Which rows the clusters of an adaptive softmax are computed for, and what is their target there.
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
    Tensor rows;    // i64 [capacity]; absent: all of them
    Tensor target;  // i64, as many: the class within the cluster, kNoClass where there is none
  };

  Tensor head;  // i64 [rows]: the class, or shortlist + number of its cluster; kNoClass where it is ignored
  std::vector<Cluster> clusters;  // those that are needed
};

// So many of `rows` rows are computed where `count` are wanted, count >= 1: a multiple of a 32nd of the next
// power of two, so that a number of rows has at most 32 capacities.
Index capacity_of(Index count, Index rows);

// target i64 [rows]; cluster i has the classes from bounds[i] to bounds[i+1]. In host memory, rows are
// gathered by target, and what fills them up is row 0 without a target; throws UserError for a class outside
// of [0, bounds.back()). On kShapes there are as many as of log-uniform targets, elsewhere every_row().
AdaptiveRows adaptive_rows(const Tensor& target, const std::vector<Index>& bounds,
                           std::optional<Index> ignore_index);

// Every cluster, for all rows, by ops on the target's device: no size depends on its values. A class that
// does not exist is one in what it gives, too, for the cross entropy to find.
AdaptiveRows every_row(const Tensor& target, const std::vector<Index>& bounds,
                       std::optional<Index> ignore_index);

}  // namespace tandem::nn
