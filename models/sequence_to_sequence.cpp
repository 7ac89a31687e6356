#include "models/sequence_to_sequence.h"

#include "core/error.h"

namespace tandem::models {

Tensor SequenceToSequence::operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) {
  return observed([&] { return scores_of(source, lengths, target); });
}

Tensor SequenceToSequence::forward(const Tensor& words) { return scores_of(words, {}, words); }

Tensor SequenceToSequence::scores_of(const Tensor& source, const Tensor& lengths, const Tensor& target) {
  return scores(read(target, encode(source, lengths)));
}

SequenceToSequence::Embeddings SequenceToSequence::make_embeddings(const char* model,
                                                                   const Vocabularies& words, Index width) {
  require(words.source > 0 && words.target > 0, model, "vocabularies must not be empty, got {} and {} words",
          words.source, words.target);
  require(!words.shared || words.source == words.target, model,
          "a shared table needs one vocabulary, got {} words of the source and {} of the target",
          words.source, words.target);
  const auto source = std::make_shared<nn::Embedding>(words.source, width);
  return {source, words.shared ? source : std::make_shared<nn::Embedding>(words.target, width)};
}

}  // namespace tandem::models
