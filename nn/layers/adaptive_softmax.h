// Adaptive softmax: probabilities over many classes by way of clusters of rare ones (Grave et al., "Efficient
// softmax approximation for GPUs", ICML 2017), as torch.nn.AdaptiveLogSoftmaxWithLoss defines it.
#pragma once

#include <optional>
#include <vector>

#include "nn/layers/adaptive_rows.h"
#include "nn/layers/linear.h"
#include "nn/layers/sequential.h"

namespace tandem::nn {

struct AdaptiveSoftmaxOptions {
  // Where clusters begin, classes being numbered from the most frequent down: strictly increasing in
  // [1, classes - 1]. Those before the first are the shortlist.
  std::vector<Index> cutoffs;
  double div_value = 4.0;  // cluster i, from 1, sees its input in ⌊in/div_value^i⌋ numbers
  bool head_bias = false;
};

// What is wrong with `cutoffs` and `div_value` for so many inputs and classes; "" when nothing is.
std::string complaint_of(const AdaptiveSoftmaxOptions& options, Index in_features, Index classes);

// ln p(class) is the head's log-softmax, over the shortlist and one column a cluster, plus, beyond the
// shortlist, the log-softmax inside of the cluster. Products follow the active precision; logarithms, and
// what is added to them, are f32 (f64 for f64).
//
// Of each cluster only the rows are computed whose target lies in it, where targets are in host memory. Their
// number depends on the data; it is rounded up to one of 32 or fewer for a number of rows, so that few shapes
// exist, and a cluster that no row needs costs nothing. On any other device no size depends on data: every
// cluster is computed for every row, and rows of other clusters are ignored by its loss. On kShapes, where
// there are no targets, it is as many rows as log-uniform targets (data/text/log_uniform.h) need.
//
// Parameters, all with the start of Linear: head.weight [shortlist + clusters, I], head.bias; for cluster i
// from 0, tail.i.0.weight [⌊I/div_value^(i+1)⌋, I] and tail.i.1.weight [its classes, that many].
class AdaptiveSoftmax final : public Module {
 public:
  // Throws UserError for sizes below 1 and what complaint_of says.
  AdaptiveSoftmax(Index in_features, Index classes, const AdaptiveSoftmaxOptions& options);

  // ln p of every class: [...,I] → [...,classes].
  Tensor forward(const Tensor& x) override;
  // -ln p of the targets: x [...,I], target i64 [...] → [...]. Rows whose target is `ignore_index` are 0,
  // without a gradient. Throws UserError for any other target outside of [0,classes), as far as the host sees
  // it.
  Tensor negative_log_likelihood(const Tensor& x, const Tensor& target,
                                 std::optional<Index> ignore_index = std::nullopt);
  // The same for targets that were split among the clusters, x [rows,I] → [rows].
  Tensor negative_log_likelihood(const Tensor& x, const AdaptiveRows& split);
  // Its mean over the rows that are not ignored; of no row, 0.
  Tensor loss(const Tensor& x, const Tensor& target, std::optional<Index> ignore_index = std::nullopt);
  // The likeliest class of each row, i64 [...], the first of equals. Without a gradient. Clusters are looked
  // at only for rows whose head has its maximum beyond the shortlist: no class of a cluster can be likelier
  // than the cluster.
  Tensor predict(const Tensor& x);
  std::string describe() const override;

  Index classes() const { return bounds_.back(); }
  const AdaptiveSoftmaxOptions& options() const { return options_; }

 private:
  Index shortlist() const { return bounds_.front(); }
  Index clusters() const { return static_cast<Index>(tail_.size()); }

  AdaptiveSoftmaxOptions options_;
  std::vector<Index> bounds_;  // the cutoffs and the number of classes
  std::shared_ptr<Linear> head_;
  std::vector<std::shared_ptr<Sequential>> tail_;
};

}  // namespace tandem::nn
