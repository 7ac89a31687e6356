// TextEncoder: the interface of models that encode whole texts. The task `text_classification` trains and
// predicts through it.
#pragma once

#include <optional>

#include "models/model_kind.h"
#include "nn/module.h"

namespace tandem::models {

class TextEncoder : public nn::Module {
 public:
  static constexpr ModelKind kind = ModelKind::text_encoder;

  // Words [T,N] (i64 or i32), padded at the end, to one vector per text, [N,E]. `lengths`: words of each
  // text, i64 [N] in host memory, in [1,T], or absent: all T. Words beyond a length are ignored.
  virtual Tensor encode(const Tensor& words, const Tensor& lengths) = 0;
  // Class logits of texts, [N,classes()].
  virtual Tensor scores(const Tensor& encoded) = 0;
  virtual Index classes() const = 0;
  // The most words of a text, padding included; absent: any number.
  virtual std::optional<Index> longest_text() const { return {}; }

  // The scores of texts; the second form is for texts of full length T.
  Tensor operator()(const Tensor& words, const Tensor& lengths) {
    return observed([&] { return scores(encode(words, lengths)); });
  }
  using Module::operator();
  Tensor forward(const Tensor& words) override { return scores(encode(words, {})); }
};

}  // namespace tandem::models
