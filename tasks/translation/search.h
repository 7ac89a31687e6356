// Beam search with an encoder–decoder.
#pragma once

#include <vector>

#include "models/sequence_to_sequence.h"
#include "tasks/sequence/beam_search.h"
#include "tasks/translation/data.h"

namespace tandem::tasks {

// With the begin and end tokens of the data's codec, and the configuration's options.
BeamOptions beam_options(const TranslationOptions::Evaluation& options, const TranslationData& data,
                         const models::SequenceToSequence& model);

// The hypotheses of each of N texts, the best first. Source i64 [S,N] with `lengths` pieces each, i64 [N] in
// host memory; model and source are on the same device.
std::vector<std::vector<BeamHypothesis>> search(models::SequenceToSequence& model, const Tensor& source,
                                                const Tensor& lengths, const BeamOptions& options);

}  // namespace tandem::tasks
