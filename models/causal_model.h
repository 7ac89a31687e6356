// CausalModel: the interface of language models, which predict each word from those before it. The task
// `language` trains, evaluates and generates through it.
#pragma once

#include <functional>

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
    Tensor hidden;  // [T,N,E], what scores() and loss() take
    State state;    // after the last word of each row
    Tensor raw{};   // hidden before its dropout, for penalties on it; absent: hidden itself
  };

  // The words [T,N] that the model is to predict, i64; none where they are kNoTarget.
  static constexpr std::int64_t kNoTarget = -1;
  struct Targets {
    Tensor words;
    double label_smoothing = 0.0;
    nn::CandidateClasses candidates{};  // where candidates() asks for them
    std::function<void()> ready{};      // called between the outputs and the loss, to time them
  };
  struct Figures {
    Tensor nll;    // Σ -ln p of the targets, by the probabilities of all words
    Tensor guess;  // i64 [T,N], the likeliest words
  };

  // Reads words [T,N] (i64 or i32) after `state`, which is empty before the first word of a text. `lengths`:
  // words of each row, i64 [N] in host memory, or absent: all T.
  Advanced advance(const Tensor& words, const State& state, const Tensor& lengths = {});
  // Logits of the next word, or log-probabilities: [T,N,V].
  virtual Tensor scores(const Tensor& hidden) = 0;
  // Whether a piece of a stream goes on with the state that the piece before it left, as recurrent networks
  // do in training and evaluation. Otherwise each piece begins a text, and states are for generating alone.
  virtual bool carries_state() const { return true; }

  // The mean over the targets of what training minimises. Unless overridden, the cross entropy of scores().
  virtual Tensor loss(const Tensor& hidden, const Targets& targets);
  virtual Figures figures(const Tensor& hidden, const Tensor& targets);
  // The words that training draws for a batch to compare its targets with, if any.
  virtual std::optional<SampledSoftmaxOptions> candidates() const { return {}; }
  // Whether loss() sees the scores of all words, as label smoothing needs.
  virtual bool sees_all_words() const { return true; }

  // The scores of words [T,N] without a past.
  Tensor forward(const Tensor& words) override;

 protected:
  // What advance() does; observers are told by it.
  virtual Advanced read(const Tensor& words, const State& state, const Tensor& lengths) = 0;
};

}  // namespace tandem::models
