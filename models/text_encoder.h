// TextEncoder: the interface of models that read whole texts, by which the task `text_classification` trains
// and predicts.
#pragma once

#include "models/model_kind.h"
#include "nn/module.h"

namespace tandem::models {

class TextEncoder : public nn::Module {
 public:
  static constexpr ModelKind kind = ModelKind::text_encoder;

  // Words [T,N] (i64 or i32), each text's at the front, to what stands for each text, [N,E]. `lengths`: words
  // of each, i64 [N] in host memory, in [1,T], or absent: all T. What stands behind a text's words takes no
  // part.
  virtual Tensor encode(const Tensor& words, const Tensor& lengths) = 0;
  // Logits of the classes of texts, [N,classes()].
  virtual Tensor scores(const Tensor& encoded) = 0;
  virtual Index classes() const = 0;

  // The scores of texts; of texts that fill [T,N].
  Tensor operator()(const Tensor& words, const Tensor& lengths) {
    return observed([&] { return scores(encode(words, lengths)); });
  }
  using Module::operator();
  Tensor forward(const Tensor& words) override { return scores(encode(words, {})); }
};

}  // namespace tandem::models
