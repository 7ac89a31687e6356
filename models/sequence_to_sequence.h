// SequenceToSequence: the interface of encoder–decoders. The task `translation` trains, evaluates and
// searches through it.
#pragma once

#include <memory>

#include "models/model_kind.h"
#include "models/state.h"
#include "nn/layers/embedding.h"
#include "nn/ports.h"

namespace tandem::models {

class SequenceToSequence : public nn::Module {
 public:
  static constexpr ModelKind kind = ModelKind::sequence_to_sequence;

  // Encoder outputs of N sources of up to S words.
  struct Memory {
    State values;    // N on axis 1
    Tensor lengths;  // words of each source, i64 [N] in host memory; absent: all S
  };
  struct Advanced {
    Tensor hidden;       // [T,R,E], argument of scores()
    State state;         // after the last word of each row
    Tensor attention{};  // [T,R,S], attention weights over the source; if gives_attention()
  };

  // Source words [S,N] (i64 or i32) with `lengths` as above; words beyond a length are ignored.
  virtual Memory encode(const Tensor& source, const Tensor& lengths) = 0;
  // Reads target words [T,R] after `state`, which is empty before the first word. R = W rows for each of the
  // N sources, number source·W + hypothesis; T or W is 1. The memory is not copied W times. Training uses
  // read(), so the advance() of a model that has both may run without gradients.
  virtual Advanced advance(const Tensor& words, const Memory& memory, const State& state) = 0;
  // Logits of the next target word, [T,R,V].
  virtual Tensor scores(const Tensor& hidden) = 0;
  // Whether advance() returns attention weights, which the coverage penalty needs.
  virtual bool gives_attention() const { return true; }
  // Encoder and decoder as graphs for an export; they read texts of `longest` words or more (Part::longest).
  // Empty: the model has no such graphs. May add a constant with more positions.
  virtual std::vector<nn::Part> parts(Index /*longest*/) { return {}; }

  // Scores [T,N,V] of the word after each of `target` [T,N], whose first word is the begin symbol.
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target);
  // Words [S,N] as source and target, for summaries.
  Tensor forward(const Tensor& words) override;

 protected:
  struct Vocabularies {
    Index source, target;  // words
    bool shared;           // one embedding table for both sides
  };
  struct Embeddings {
    std::shared_ptr<nn::Embedding> source, target;  // the same one if shared
  };
  // Throws UserError, which begins with `model`, without words and if shared for different numbers of words.
  static Embeddings make_embeddings(const char* model, const Vocabularies& words, Index width);

 private:
  // Hidden values [T,N,E] of whole targets [T,N], for training. Default: those of advance().
  virtual Tensor read(const Tensor& target, const Memory& memory) {
    return advance(target, memory, {}).hidden;
  }
  Tensor scores_of(const Tensor& source, const Tensor& lengths, const Tensor& target);
};

}  // namespace tandem::models
