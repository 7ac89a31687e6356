// Sampled softmax: a linear layer over many classes that is trained against few candidates, drawn for each
// batch (Jean, Cho, Memisevic and Bengio, "On using very large target vocabulary", ACL 2015), as TensorFlow's
// sampled_softmax_loss.
#pragma once

#include <optional>

#include "nn/layers/linear.h"

namespace tandem::nn {

// Sampled candidates (drawn in data/text/candidate_source.h).
struct CandidateClasses {
  Tensor ids;               // i64 [S], one set for all rows
  Tensor log_count;         // f32 [S]: ln of the expected count of each in the set
  Tensor target_log_count;  // f32, shape of the targets: the same for each target
};

// Forward and parameters are those of Linear: [...,I] → [...,O]; weight [O,I], bias [O] (or absent).
class SampledSoftmax final : public Module {
 public:
  // Shares the parameters of a Linear.
  explicit SampledSoftmax(const Linear& layer);

  Tensor forward(const Tensor& x) override;
  // Mean, over the rows that are not ignored, of a cross entropy over the row's target and the candidates,
  // each logit minus its log count; candidates equal to the row's target are excluded. A training estimate:
  // evaluate with all logits from forward.
  //
  // x [...,I], target i64 [...]. Only weight rows of candidates and targets are read and get a gradient.
  // Products follow the active precision, the rest is f32 (f64 for f64). Throws UserError for mismatched
  // shapes and invalid classes.
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
