// ModelKind: the interface by which a task calls a model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::models {

enum class ModelKind : std::uint8_t {
  classifier,            // samples to a score a class, by Module::forward
  segmenter,             // images to a score a class at every pixel, by Module::forward
  detector,              // models/detector.h
  causal,                // models/causal_model.h
  text_encoder,          // models/text_encoder.h
  sequence_to_sequence,  // models/sequence_to_sequence.h
  adversarial_pair       // models/adversarial_pair.h
};

// "language model", as a message says it.
std::string_view name_of(ModelKind kind);
// Whether a model can be run on a batch of samples, to see whether it fits them.
constexpr bool runs_on_samples(ModelKind kind) { return kind <= ModelKind::detector; }
// Whether a model of kind `is` can be called as one of kind `wanted`. A network from samples to scores is one
// or the other by the shape of its scores.
constexpr bool serves_as(ModelKind is, ModelKind wanted) {
  return is == wanted || (is <= ModelKind::segmenter && wanted <= ModelKind::segmenter);
}
// "is no language model; take language_model": of whatever does not serve, with the registered ones that do.
std::string not_of_kind(ModelKind wanted);

}  // namespace tandem::models
