#include "tasks/language/evaluation.h"

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "tasks/language/chunk.h"
#include "tasks/language/options.h"
#include "tasks/language/word_loss.h"
#include "tasks/sequence/state.h"

namespace tandem::tasks {

void LanguageEvaluation::add(const datasets::Batch& batch) {
  const NoGrad no_grad;
  const LossContext context{.carry = &carry_};
  const auto [token, target] = chunk_of(batch);
  const auto hidden = model_.hidden(token, carried_state(context));
  carry_on(context, hidden.state);
  const auto [nll, guess] = word_figures(model_, hidden.y, target);
  perplexity_.add(nll.item(), batch.samples);
  const Tensor hits = cast(equal(guess, target), DType::f32);
  right_ += static_cast<std::int64_t>(sum(hits).item());
}

Metrics LanguageEvaluation::metrics() const {
  const double targets = static_cast<double>(std::max<std::int64_t>(perplexity_.targets(), 1));
  Metrics metrics{{"perplexity", perplexity_.value()},
                  {"loss", perplexity_.mean()},
                  {"accuracy", static_cast<double>(right_) / targets}};
  if (of_characters_)
    metrics.emplace_back(kBitsPerCharacter, perplexity_.bits_per_character(perplexity_.targets()));
  return metrics;
}

}  // namespace tandem::tasks
