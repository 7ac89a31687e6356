#include "models/causal_model.h"

#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"

namespace tandem::models {

CausalModel::Advanced CausalModel::advance(const Tensor& words, const State& state, const Tensor& lengths) {
  Advanced advanced;
  observed([&] {
    advanced = read(words, state, lengths);
    TensorList all{advanced.hidden};
    for (const State::Field& field : advanced.state.fields()) all.push_back(field.value);
    if (advanced.raw.defined()) all.push_back(advanced.raw);
    return all;
  });
  return advanced;
}

Tensor CausalModel::forward(const Tensor& words) { return scores(read(words, {}, {}).hidden); }

Tensor CausalModel::loss(const Tensor& hidden, const Targets& targets) {
  const Tensor logits = scores(hidden);
  if (targets.ready) targets.ready();
  return cross_entropy(logits, targets.words,
                       {.label_smoothing = targets.label_smoothing, .ignore_index = kNoTarget});
}

CausalModel::Figures CausalModel::figures(const Tensor& hidden, const Tensor& targets) {
  const Tensor logits = scores(hidden);
  return {cross_entropy(logits, targets, {.ignore_index = kNoTarget, .reduce = Reduce::sum}), argmax(logits)};
}

}  // namespace tandem::models
