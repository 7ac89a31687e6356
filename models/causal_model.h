// CausalModel: the interface of language models, which predict each word from the words before it. The task
// `language` trains, evaluates and generates through it.
#pragma once

#include <functional>
#include <optional>

#include "models/model_kind.h"
#include "models/state.h"
#include "models/word_softmax.h"
#include "nn/layers/sampled_softmax.h"
#include "nn/module.h"

namespace tandem::models {

class CausalModel : public nn::Module {
 public:
  static constexpr ModelKind kind = ModelKind::causal;

  struct Advanced {
    Tensor hidden;  // [T,N,E], argument of scores() and loss()
    State state;    // after the last word of each row
    Tensor raw{};   // hidden before dropout, for activation penalties; absent: hidden itself
  };

  // Target words [T,N], i64; kNoTarget: no target.
  static constexpr std::int64_t kNoTarget = -1;
  struct Targets {
    Tensor words;
    double label_smoothing = 0.0;
    nn::CandidateClasses candidates{};  // if candidates() asks for them
    std::function<void()> ready{};      // called between the outputs and the loss, for timing
  };
  struct Figures {
    Tensor nll;    // Σ -ln p of the targets under the full softmax
    Tensor guess;  // i64 [T,N], the most likely words
  };

  // Reads words [T,N] (i64 or i32) after `state`, which is empty at the beginning of a text. `lengths`: words
  // of each row, i64 [N] in host memory, or absent: all T.
  Advanced advance(const Tensor& words, const State& state, const Tensor& lengths = {});
  // The state before the first word of `texts` texts that are to be generated. Default: empty. A model with a
  // cache, which advance() fills in place, returns a state that asks for it; then each state may be advanced
  // once. State::select copies.
  virtual State begin(Index /*texts*/) const { return {}; }
  // Words of a text that training reads at once, unless data.steps is given, and whether texts cannot be
  // longer.
  virtual std::optional<Index> context() const { return {}; }
  virtual bool is_bounded() const { return false; }
  // Logits of the next word, or log-probabilities: [T,N,V].
  virtual Tensor scores(const Tensor& hidden) = 0;
  // Whether chunks of a stream continue from the previous state in training and evaluation, as recurrent
  // networks do. Otherwise each chunk begins a text, and states are only for generation.
  virtual bool carries_state() const { return true; }

  // Training loss, a mean over the targets. Default: the cross entropy of scores().
  virtual Tensor loss(const Tensor& hidden, const Targets& targets);
  virtual Figures figures(const Tensor& hidden, const Tensor& targets);
  // Sampling of candidate words for the training loss, if any.
  virtual std::optional<SampledSoftmaxOptions> candidates() const { return {}; }
  // Whether loss() uses the scores of all words, as label smoothing needs.
  virtual bool sees_all_words() const { return true; }

  // The scores of words [T,N] from an empty state.
  Tensor forward(const Tensor& words) override;

 protected:
  // Implements advance(), which notifies observers.
  virtual Advanced read(const Tensor& words, const State& state, const Tensor& lengths) = 0;
};

}  // namespace tandem::models
