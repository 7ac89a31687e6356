// Beam search with an encoder–decoder.
#pragma once

#include <vector>

#include "models/sequence_to_sequence.h"
#include "tasks/sequence/beam_search.h"
#include "tasks/translation/data.h"

namespace tandem::tasks {

// With the marks of the data's codec, and all that the configuration says.
BeamOptions beam_options(const TranslationOptions::Evaluation& options, const TranslationData& data);

// The hypotheses of each of N texts, the best first. Source i64 [S,N] with `lengths` pieces of each, i64 [N]
// in host memory; the model lies where the source does.
std::vector<std::vector<BeamHypothesis>> search(models::SequenceToSequence& model, const Tensor& source,
                                                const Tensor& lengths, const BeamOptions& options);

}  // namespace tandem::tasks
