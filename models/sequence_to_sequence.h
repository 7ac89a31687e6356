// SequenceToSequence: the interface of encoder–decoders, which write a text from another one. The task
// `translation` trains, evaluates and searches through it.
#pragma once

#include "models/model_kind.h"
#include "models/state.h"
#include "nn/module.h"

namespace tandem::models {

class SequenceToSequence : public nn::Module {
 public:
  static constexpr ModelKind kind = ModelKind::sequence_to_sequence;

  // What the encoder leaves of N sources of up to S words for the decoder to look at.
  struct Memory {
    State values;    // N on axis 1
    Tensor lengths;  // words of each source, i64 [N] in host memory; absent: all S
  };
  struct Advanced {
    Tensor hidden;       // [T,R,E], what scores() takes
    State state;         // after the last word of each row
    Tensor attention{};  // [T,R,S], how much each word looked at each of the source; where gives_attention()
  };

  // Source words [S,N] (i64 or i32) with `lengths` as above; what stands behind a source's words takes no
  // part.
  virtual Memory encode(const Tensor& source, const Tensor& lengths) = 0;
  // Reads target words [T,R] after `state`, which is empty before the first word. R is W rows of each of the
  // N sources, number source·W + hypothesis; T or W is 1. The memory is not copied for each of the W.
  virtual Advanced advance(const Tensor& words, const Memory& memory, const State& state) = 0;
  // Logits of the next target word, [T,R,V].
  virtual Tensor scores(const Tensor& hidden) = 0;
  // Whether advance() gives attention, which a penalty on what was left out of the source needs.
  virtual bool gives_attention() const { return true; }

  // Scores [T,N,V] of the word behind each of `target` [T,N], of which the first is the begin.
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target);
  // Words [S,N] as the source and as the target: the form that summaries want.
  Tensor forward(const Tensor& words) override;

 private:
  Tensor scores_of(const Tensor& source, const Tensor& lengths, const Tensor& target);
};

}  // namespace tandem::models
