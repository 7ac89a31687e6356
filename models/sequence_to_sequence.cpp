#include "models/sequence_to_sequence.h"

namespace tandem::models {

Tensor SequenceToSequence::operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) {
  return observed([&] { return scores_of(source, lengths, target); });
}

Tensor SequenceToSequence::forward(const Tensor& words) { return scores_of(words, {}, words); }

Tensor SequenceToSequence::scores_of(const Tensor& source, const Tensor& lengths, const Tensor& target) {
  return scores(read(target, encode(source, lengths)));
}

}  // namespace tandem::models
