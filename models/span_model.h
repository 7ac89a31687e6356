// SpanModel: the interface of bidirectional text models that find a part of a text, such as the answer to a
// question. The task `question_answering` trains and predicts through it.
#pragma once

#include "models/masked_model.h"

namespace tandem::models {

class SpanModel : public MaskedModel {
 public:
  static constexpr ModelKind kind = ModelKind::span;

  // Logits of the first and of the last token of the part, by position: hidden() [N,T,C] to [N,T,2].
  virtual Tensor span_scores(const Tensor& hidden) = 0;
};

}  // namespace tandem::models
