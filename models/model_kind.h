// ModelKind: the interface that a task needs of a model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::models {

enum class ModelKind : std::uint8_t {
  classifier,            // samples to class scores, by Module::forward
  segmenter,             // images to class scores at every pixel, by Module::forward
  detector,              // models/detector.h
  causal,                // models/causal_model.h
  text_encoder,          // models/text_encoder.h
  masked,                // models/masked_model.h
  span,                  // models/span_model.h
  sequence_to_sequence,  // models/sequence_to_sequence.h
  adversarial_pair       // models/adversarial_pair.h
};

// Name for messages: "language model".
std::string_view name_of(ModelKind kind);
// Whether a model runs on a plain batch of samples, so that their fit can be checked.
constexpr bool runs_on_samples(ModelKind kind) { return kind <= ModelKind::detector; }
// Whether a model of kind `is` can be used as `wanted`. Classifiers and segmenters differ only by the shape
// of their scores; span models are masked models, and these are text encoders.
constexpr bool serves_as(ModelKind is, ModelKind wanted) {
  return is == wanted || (is <= ModelKind::segmenter && wanted <= ModelKind::segmenter) ||
         (is == ModelKind::masked && wanted == ModelKind::text_encoder) ||
         (is == ModelKind::span && (wanted == ModelKind::masked || wanted == ModelKind::text_encoder));
}
// "is no language model; use language_model": end of a message, with the registered models of that kind.
std::string not_of_kind(ModelKind wanted);

}  // namespace tandem::models
