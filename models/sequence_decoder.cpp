#include "models/sequence_decoder.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/random.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "models/recurrent_layers.h"
#include "nn/init.h"
#include "nn/layers/sequential.h"

namespace tandem::models {

// Cells, and the attention queried by their output.
class SequenceDecoder::AttentiveLayer final : public nn::Module {
 public:
  struct Answer {
    Tensor y, context, weights, h, c;
  };

  explicit AttentiveLayer(const SequenceDecoderOptions& options)
      : rnn_(add_child(
            "rnn", std::make_shared<nn::Recurrent>(options.embedding, options.units,
                                                   nn::RecurrentOptions{.recompute = options.recompute}))),
        attention_(add_child("attn", std::make_shared<SequenceAttention>(options.attention, options.units,
                                                                         options.values, options.units))) {}

  SequenceAttention& attention() { return *attention_; }
  Answer operator()(const Tensor& x, const SequenceMemory& memory, const RnnState& state) {
    return observed([&]() -> Answer {
      const RnnResult result = (*rnn_)(x, state);
      const AttentionResult found = (*attention_)(result.y, memory);
      return {result.y, found.context, found.weights, result.state.h, result.state.c};
    });
  }
  std::string describe() const override { return "AttentiveLayer"; }

 private:
  std::shared_ptr<nn::Recurrent> rnn_;
  std::shared_ptr<SequenceAttention> attention_;
};

SequenceDecoder::SequenceDecoder(std::shared_ptr<nn::Embedding> embedder,
                                 const SequenceDecoderOptions& options)
    : options_(options), embedder_(add_child("embedder", std::move(embedder))) {
  require(options.layers > 1, "encoder_decoder",
          "a decoder needs at least 2 layers: the first one queries attention, the others read the context; "
          "got {}",
          options.layers);
  require(!options.tied || options.units == options.embedding, "encoder_decoder",
          "tied weights need equal numbers of units ({}) and of embedding features ({})", options.units,
          options.embedding);
  first_ = add_child("att_rnn", std::make_shared<AttentiveLayer>(options));
  for (Index layer = 1; layer < options.layers; ++layer)
    later_.push_back(std::make_shared<nn::Recurrent>(options.units + options.values, options.units,
                                                     nn::RecurrentOptions{.recompute = options.recompute}));
  add_child("rnn_layers", std::make_shared<RecurrentLayers>(later_));
  if (options.tied) {
    const Tensor bias = nn::parameter_memory({options.words});
    nn::init::zeros(bias);
    classifier_ = std::make_shared<nn::Linear>(embedder_->weight(), Parameter(bias));
  } else {
    classifier_ = std::make_shared<nn::Linear>(options.units, options.words);
  }
  const auto classifier = add_child("classifier", std::make_shared<nn::Sequential>());
  classifier->add("classifier", classifier_);
}

SequenceMemory SequenceDecoder::memory(const Tensor& values, const Tensor& lengths) {
  return first_->attention().memory(values, lengths);
}

SequenceDecoder::Advanced SequenceDecoder::operator()(const Tensor& words, const SequenceMemory& memory,
                                                      const State& state) {
  Advanced advanced;
  observed([&] {
    advanced = run(words, memory, state);
    return TensorList{advanced.hidden, advanced.attention};
  });
  return advanced;
}

SequenceDecoder::Advanced SequenceDecoder::run(const Tensor& words, const SequenceMemory& memory,
                                               const State& state) {
  const auto prefix = [](std::size_t layer) { return std::to_string(layer) + "."; };
  const auto dropped = [&](const Tensor& x) { return dropout(x, options_.dropout, training()); };
  const AttentiveLayer::Answer answer =
      (*first_)(dropped((*embedder_)(words)), memory, recurrent_state(state, prefix(0)));
  Advanced advanced{.hidden = answer.y, .state = {}, .attention = answer.weights};
  set_recurrent(advanced.state, {answer.h, answer.c}, prefix(0));
  for (std::size_t i = 0; i < later_.size(); ++i) {
    const Tensor& x = advanced.hidden;
    const RnnResult next =
        (*later_[i])(dropped(concat({x, answer.context}, -1)), recurrent_state(state, prefix(i + 1)));
    set_recurrent(advanced.state, next.state, prefix(i + 1));
    advanced.hidden = i == 0 ? next.y : next.y + x;
  }
  return advanced;
}

Tensor SequenceDecoder::scores(const Tensor& hidden) {
  return observed([&] { return (*classifier_)(hidden); });
}

std::string SequenceDecoder::describe() const {
  return fmt::format("SequenceDecoder({} layers of {}, {} words{})", options_.layers, options_.units,
                     options_.words, options_.tied ? ", tied" : "");
}

}  // namespace tandem::models
