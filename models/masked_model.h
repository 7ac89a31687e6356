// MaskedModel: the interface of bidirectional text models that predict masked words, such as BERT. The task
// `masked_language` trains them; as text encoders they are fine-tuned by `text_classification`.
#pragma once

#include "models/text_encoder.h"

namespace tandem::models {

// Inside such a model and in its task a text is a row.
struct MaskedTexts {
  Tensor tokens;      // i64 [N,T], padded at the end
  Tensor segments{};  // i64 [N,T]: 0 or 1, for pairs of texts; absent: all 0
  Tensor lengths{};   // of the texts, i64 [N] in host memory, in [1,T]; absent: all T
};

class MaskedModel : public TextEncoder {
 public:
  static constexpr ModelKind kind = ModelKind::masked;

  // [N,T,C]. Tokens beyond a length are ignored.
  Tensor hidden(const MaskedTexts& texts) {
    return observed([&] { return read(texts); });
  }
  // Logits of the words at some positions: [M,C], rows of hidden(), to [M,V]; or at all, [N,T,C] to [N,T,V].
  virtual Tensor word_scores(const Tensor& rows) = 0;
  // Logits [N,2] of pairs: class 0 if the second text follows the first one.
  virtual Tensor next_scores(const Tensor& hidden) = 0;
  virtual bool scores_next() const = 0;
  // Longest text, in tokens.
  virtual Index context() const = 0;
  std::optional<Index> longest_text() const final { return context(); }

 protected:
  // Implements hidden(), which notifies observers.
  virtual Tensor read(const MaskedTexts& texts) = 0;
};

}  // namespace tandem::models
