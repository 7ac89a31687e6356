#include "nn/layers/adaptive_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "core/error.h"
#include "core/shapes_backend.h"

namespace tandem::nn {

namespace {

using Ids = std::vector<std::int64_t>;

Tensor tensor_of(const Ids& ids) { return Tensor::from(ids, {static_cast<Index>(ids.size())}); }

AdaptiveRows gathered(const Tensor& target, const std::vector<Index>& bounds,
                      std::optional<Index> ignore_index) {
  const Index rows = target.numel(), shortlist = bounds.front();
  const std::int64_t* const ids = target.data<std::int64_t>();
  std::vector<Ids> own(bounds.size() - 1), inside(bounds.size() - 1);
  Ids head(static_cast<std::size_t>(rows), AdaptiveRows::kNoClass);
  for (Index row = 0; row < rows; ++row) {
    const std::int64_t id = ids[row];
    if (ignore_index && id == *ignore_index) continue;
    require(id >= 0 && id < bounds.back(), "adaptive_softmax", "target {} in row {} lies outside [0,{})", id,
            row, bounds.back());
    std::int64_t& seen = head[static_cast<std::size_t>(row)];
    seen = id;
    if (id < shortlist) continue;
    const auto cluster = static_cast<std::size_t>(std::ranges::upper_bound(bounds, id) - bounds.begin()) - 1;
    seen = shortlist + static_cast<std::int64_t>(cluster);
    own[cluster].push_back(row);
    inside[cluster].push_back(id - bounds[cluster]);
  }
  AdaptiveRows split{.head = tensor_of(head), .clusters = {}};
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].empty()) continue;
    const auto capacity = static_cast<std::size_t>(capacity_of(static_cast<Index>(own[i].size()), rows));
    own[i].resize(capacity, 0);
    inside[i].resize(capacity, AdaptiveRows::kNoClass);
    split.clusters.push_back({i, tensor_of(own[i]), tensor_of(inside[i])});
  }
  return split;
}

AdaptiveRows expected(const Tensor& target, const std::vector<Index>& bounds) {
  const auto rows = static_cast<double>(target.numel());
  AdaptiveRows split{.head = target, .clusters = {}};
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    // P of log_uniform.h summed over the cluster's classes.
    const double share =
        std::log(static_cast<double>(bounds[i + 1] + 1) / static_cast<double>(bounds[i] + 1)) /
        std::log(static_cast<double>(bounds.back() + 1));
    const auto count = static_cast<Index>(std::ceil(share * rows));
    if (count == 0) continue;
    const Tensor some = Tensor::empty({capacity_of(count, target.numel())}, target.options());
    split.clusters.push_back({i, some, some});
  }
  return split;
}

}  // namespace

AdaptiveRows every_row(const Tensor& target, const std::vector<Index>& bounds,
                       std::optional<Index> ignore_index) {
  const NoGrad no_grad;
  const auto constant = [&](Index value) {
    return Tensor::scalar(static_cast<double>(value), target.options());
  };
  const Tensor none = constant(AdaptiveRows::kNoClass);
  const Tensor known = ignore_index ? where(equal(target, constant(*ignore_index)), none, target) : target;
  AdaptiveRows split{.head = known, .clusters = {}};
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const Tensor from = greater_equal(known, constant(bounds[i]));
    const Tensor column = constant(bounds.front() + static_cast<Index>(i));
    // A later cluster overwrites the head target of the earlier ones.
    split.head = where(from, column, split.head);
    Tensor inside = where(from, known - constant(bounds[i]), none);
    // The cross entropy of the last cluster rejects classes beyond the end.
    if (i + 2 < bounds.size()) inside = where(less(known, constant(bounds[i + 1])), inside, none);
    split.clusters.push_back({i, {}, inside});
  }
  return split;
}

Index capacity_of(Index count, Index rows) {
  const auto power = static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(std::max<Index>(rows, 1))));
  const Index step = std::max<Index>(power / 32, 1);
  return std::min((count + step - 1) / step * step, rows);
}

AdaptiveRows adaptive_rows(const Tensor& target, const std::vector<Index>& bounds,
                           std::optional<Index> ignore_index) {
  if (target.device() == kShapes) return expected(target, bounds);
  if (target.device() == Device{}) return gathered(target, bounds, ignore_index);
  return every_row(target, bounds, ignore_index);
}

}  // namespace tandem::nn
