// A linear layer over many classes that learns against a few of them, drawn anew for each batch (Jean, Cho,
// Memisevic and Bengio, "On using very large target vocabulary", ACL 2015), as TensorFlow's
// sampled_softmax_loss.
#pragma once

#include <optional>

#include "nn/layers/linear.h"

namespace tandem::nn {

// What the targets are compared with (data/text/candidate_source.h draws them).
struct CandidateClasses {
  Tensor ids;               // i64 [S], one set for all rows
  Tensor log_count;         // f32 [S]: ln of how often each is expected in such a set
  Tensor target_log_count;  // f32, the shape of the targets: the same of each target
};

// Forward is a Linear's, [...,I] → [...,O], and so are the parameters: weight [O,I], bias [O] (or absent).
class SampledSoftmax final : public Module {
 public:
  // Of the parameters of a Linear, whose checks are made.
  explicit SampledSoftmax(const Linear& layer);

  Tensor forward(const Tensor& x) override;
  // The mean, over the rows that are not ignored, of a cross entropy whose classes are the row's target and
  // the candidates, each logit less its log count; a candidate that is the row's own target is left out. An
  // estimate for training: evaluate with the logits of all classes, from forward.
  //
  // x [...,I], target i64 [...]. Only rows of the weights that are candidates or targets are read and get a
  // gradient. Products follow the active precision, all else is f32 (f64 for f64). Throws UserError where
  // shapes do not fit, and for classes that do not exist.
  Tensor loss(const Tensor& x, const Tensor& target, const CandidateClasses& candidates,
              std::optional<Index> ignore_index = std::nullopt);
  std::string describe() const override;

  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }

 private:
  Tensor sampled_loss(const Tensor& x, const Tensor& target, const CandidateClasses& candidates,
                      std::optional<Index> ignore_index);

  Parameter weight_, bias_;
};

}  // namespace tandem::nn
