#include "models/text_classifier.h"

#include <algorithm>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/random.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "nn/init.h"

namespace tandem::models {

namespace {

constexpr const char* kTextClassifier = "text_classifier";

// [T,N,C] → [N,C]. Outputs beyond a text's length are 0.
Tensor mean_of(const Tensor& y, const Tensor& lengths) {
  if (!lengths.defined()) return mean(y, {0});
  const Tensor words = cast(lengths.to(y.device()), DType::f32);
  return transpose(transpose(sum(y, {0}), 0, 1) / words, 0, 1);
}

// [L·D,N,H] → [N,D·H] of the last layer.
Tensor last_of(const Tensor& states, Index directions) {
  TensorList last;
  for (Index i = states.size(0) - directions; i < states.size(0); ++i)
    last.push_back(reshape(slice(states, 0, i, i + 1), {states.size(1), states.size(2)}));
  return last.size() == 1 ? last[0] : concat(last, 1);
}

}  // namespace

TextClassifier::TextClassifier(const TextClassifierOptions& options) : options_(options) {
  require(options.vocabulary > 0 && options.classes > 0, kTextClassifier,
          "needs words and classes, got {} and {}", options.vocabulary, options.classes);
  embedding_ = add_child("embedding", std::make_shared<nn::Embedding>(options.vocabulary, options.embedding));
  if (options.init > 0.0) nn::init::uniform(embedding_->weight().value(), -options.init, options.init);
  rnn_ = add_child(
      "rnn", std::make_shared<nn::Recurrent>(options.embedding, options.units,
                                             nn::RecurrentOptions{.cell = options.cell,
                                                                  .layers = options.layers,
                                                                  .bidirectional = options.bidirectional,
                                                                  .dropout = options.dropout,
                                                                  .recompute = options.recompute}));
  classifier_ = add_child("classifier", std::make_shared<nn::Linear>(rnn_->outputs(), options.classes));
}

TensorList TextClassifier::forward_outputs(const TensorList& inputs) {
  require(inputs.size() == 2, kTextClassifier, "takes words and lengths, got {} tensors", inputs.size());
  return {scores(encode(inputs[0], inputs[1]))};
}

Tensor TextClassifier::encode(const Tensor& words, const Tensor& lengths) {
  if (lengths.defined() && lengths.numel() > 0) {
    require(lengths.device() == Device{} && lengths.dtype() == DType::i64, kTextClassifier,
            "lengths must be i64 in host memory, got {}", to_string(lengths));
    const std::int64_t* const first = lengths.data<std::int64_t>();
    const std::int64_t* const empty = std::find(first, first + lengths.numel(), 0);
    require(empty == first + lengths.numel(), kTextClassifier, "text {} of the batch has no word",
            empty - first);
  }
  const Tensor x = dropout((*embedding_)(words), options_.dropout, training());
  const RnnResult result = (*rnn_)(x, {}, lengths);
  return options_.pooling == TextPooling::mean ? mean_of(result.y, lengths)
                                               : last_of(result.state.h, options_.bidirectional ? 2 : 1);
}

Tensor TextClassifier::scores(const Tensor& encoded) {
  return (*classifier_)(dropout(encoded, options_.dropout, training()));
}

std::vector<nn::Port> TextClassifier::inputs() const {
  using nn::Port;
  return {{"words", {Port::kSteps, Port::kRows}, DType::i64}, {"lengths", {Port::kRows}, DType::i64}};
}

std::string TextClassifier::describe() const {
  return fmt::format("TextClassifier({} words → {} classes)", options_.vocabulary, options_.classes);
}

}  // namespace tandem::models
