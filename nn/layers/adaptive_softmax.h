// Adaptive softmax: probabilities of many classes with clusters for rare ones (Grave et al., "Efficient
// softmax approximation for GPUs", ICML 2017), as torch.nn.AdaptiveLogSoftmaxWithLoss defines it.
#pragma once

#include <optional>
#include <vector>

#include "nn/layers/adaptive_rows.h"
#include "nn/layers/linear.h"
#include "nn/layers/sequential.h"

namespace tandem::nn {

struct AdaptiveSoftmaxOptions {
  // First class of each cluster, with classes numbered by descending frequency: strictly increasing in [1,
  // classes - 1]. Classes before the first cutoff form the shortlist.
  std::vector<Index> cutoffs;
  double div_value = 4.0;  // cluster i, from 1, projects its input to ⌊in/div_value^i⌋ features
  bool head_bias = false;
};

// Error in `cutoffs` and `div_value` for these numbers of inputs and classes; "" if none.
std::string complaint_of(const AdaptiveSoftmaxOptions& options, Index in_features, Index classes);

// ln p(class) is the head's log-softmax, over the shortlist and one column per cluster, plus, for rare
// classes, the log-softmax within the cluster. Products follow the active precision; logarithms and sums are
// f32 (f64 for f64).
//
// With targets in host memory, each cluster computes only the rows with a target in it. Their number is
// rounded up to one of at most 32 capacities, so that few shapes exist; a cluster without rows costs nothing.
// On other devices no size depends on data: every cluster computes every row, and its loss ignores rows of
// other clusters. On kShapes, without targets, the number of rows is that of log-uniform targets
// (data/text/log_uniform.h).
//
// Parameters, all initialised like Linear: head.weight [shortlist + clusters, I], head.bias; for cluster i
// from 0, tail.i.0.weight [⌊I/div_value^(i+1)⌋, I] and tail.i.1.weight [classes, ⌊I/div_value^(i+1)⌋].
class AdaptiveSoftmax final : public Module {
 public:
  // Throws UserError for sizes below 1 and for errors of complaint_of.
  AdaptiveSoftmax(Index in_features, Index classes, const AdaptiveSoftmaxOptions& options);

  // ln p of every class: [...,I] → [...,classes].
  Tensor forward(const Tensor& x) override;
  // -ln p of the targets: x [...,I], target i64 [...] → [...]. Rows with target `ignore_index` are 0, without
  // a gradient. Throws UserError for targets in host memory outside of [0,classes).
  Tensor negative_log_likelihood(const Tensor& x, const Tensor& target,
                                 std::optional<Index> ignore_index = std::nullopt);
  // The same for targets already split among the clusters, x [rows,I] → [rows].
  Tensor negative_log_likelihood(const Tensor& x, const AdaptiveRows& split);
  // Its mean over the rows that are not ignored; 0 without such rows.
  Tensor loss(const Tensor& x, const Tensor& target, std::optional<Index> ignore_index = std::nullopt);
  // The most likely class of each row, i64 [...], the first on ties. Without a gradient. Clusters are
  // computed only for rows whose head has its maximum beyond the shortlist: no class of a cluster can be
  // likelier than the cluster.
  Tensor predict(const Tensor& x);
  std::string describe() const override;

  Index classes() const { return bounds_.back(); }
  const AdaptiveSoftmaxOptions& options() const { return options_; }

 private:
  Index shortlist() const { return bounds_.front(); }
  Index clusters() const { return static_cast<Index>(tail_.size()); }

  AdaptiveSoftmaxOptions options_;
  std::vector<Index> bounds_;  // the cutoffs, then the number of classes
  std::shared_ptr<Linear> head_;
  std::vector<std::shared_ptr<Sequential>> tail_;
};

}  // namespace tandem::nn
