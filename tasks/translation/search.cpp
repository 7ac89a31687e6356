#include "tasks/translation/search.h"

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"

namespace tandem::tasks {

namespace {

// The model's function for beam search; keeps the states of the rows that the search continues.
class Writer {
 public:
  Writer(models::SequenceToSequence& model, const Tensor& source, const Tensor& lengths, bool with_attention)
      : model_(model),
        device_(source.device()),
        memory_(model.encode(source, lengths)),
        with_attention_(with_attention) {}

  BeamPrediction operator()(const BeamStep& step) {
    const auto on_device = [&](const std::vector<std::int64_t>& numbers) {
      return Tensor::from(numbers, {static_cast<Index>(numbers.size())}).to(device_);
    };
    if (step.position > 0) state_ = state_.select(on_device({step.parents.begin(), step.parents.end()}));
    const Tensor tokens = on_device({step.tokens.begin(), step.tokens.end()});
    const Index rows = tokens.numel();
    const auto of_rows = [&](const Tensor& x) { return cast(reshape(x, {rows, x.size(-1)}), DType::f32); };
    const auto next = model_.advance(reshape(tokens, {1, rows}), memory_, state_);
    state_ = next.state;
    log_probabilities_ = log_softmax(of_rows(model_.scores(next.hidden))).to(Device{});
    if (with_attention_) attention_ = of_rows(next.attention).to(Device{});
    const auto values = [](const Tensor& x) {
      return std::span(x.data<float>(), static_cast<std::size_t>(x.numel()));
    };
    return {values(log_probabilities_), with_attention_ ? values(attention_) : std::span<const float>()};
  }

 private:
  models::SequenceToSequence& model_;
  Device device_;
  models::SequenceToSequence::Memory memory_;
  models::State state_;
  bool with_attention_;
  Tensor log_probabilities_, attention_;  // in host memory, which the search reads
};

}  // namespace

BeamOptions beam_options(const TranslationOptions::Evaluation& options, const TranslationData& data,
                         const models::SequenceToSequence& model) {
  const double coverage = model.gives_attention() ? BeamOptions{}.coverage_penalty : 0.0;
  return {.width = options.beam,
          .max_length = options.max_length.value_or(data.max_length() + 1),
          .begin = data.codecs().target->begin(),
          .end = data.codecs().target->end(),
          .length_penalty = options.length_penalty,
          .coverage_penalty = options.coverage_penalty.value_or(coverage)};
}

std::vector<std::vector<BeamHypothesis>> search(models::SequenceToSequence& model, const Tensor& source,
                                                const Tensor& lengths, const BeamOptions& options) {
  const NoGrad no_grad;
  Writer writer(model, source, lengths, options.coverage_penalty > 0.0);
  const std::vector<Index> covered = lengths.to_vector<std::int64_t>();
  return beam_search([&](const BeamStep& step) { return writer(step); }, source.size(1), options, covered);
}

}  // namespace tandem::tasks
