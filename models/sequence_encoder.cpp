#include "models/sequence_encoder.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/random.h"
#include "core/error.h"
#include "models/recurrent_layers.h"

namespace tandem::models {

SequenceEncoder::SequenceEncoder(std::shared_ptr<nn::Embedding> embedder,
                                 const SequenceEncoderOptions& options)
    : options_(options), embedder_(add_child("embedder", std::move(embedder))) {
  require(options.layers > 0, "encoder_decoder", "an encoder needs layers, got {}", options.layers);
  Index inputs = options.embedding;
  for (Index layer = 0; layer < options.layers; ++layer) {
    layers_.push_back(std::make_shared<nn::Recurrent>(
        inputs, options.units,
        nn::RecurrentOptions{.bidirectional = layer == 0, .recompute = options.recompute}));
    inputs = layers_.back()->outputs();
  }
  add_child("rnn_layers", std::make_shared<RecurrentLayers>(layers_));
}

Index SequenceEncoder::outputs() const { return layers_.back()->outputs(); }

Tensor SequenceEncoder::forward(const Tensor& words) { return run(words, {}); }

Tensor SequenceEncoder::operator()(const Tensor& words, const Tensor& lengths) {
  return observed([&] { return run(words, lengths); });
}

Tensor SequenceEncoder::run(const Tensor& words, const Tensor& lengths) {
  Tensor x = (*embedder_)(words);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Tensor y = (*layers_[i])(dropout(x, options_.dropout, training()), {}, lengths).y;
    x = i < 2 ? y : y + x;
  }
  return x;
}

std::string SequenceEncoder::describe() const {
  return fmt::format("SequenceEncoder({} layers of {})", options_.layers, options_.units);
}

}  // namespace tandem::models
