#include "tasks/text_classification/evaluation.h"

#include <nlohmann/json.hpp>

#include "core/shapes_backend.h"

namespace tandem::tasks {

namespace {

// null for an empty whole.
Json share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? Json(static_cast<double>(part) / static_cast<double>(whole)) : Json();
}

}  // namespace

Tensor logits_of(models::TextEncoder& model, const datasets::Batch& batch) {
  const Tensor& token = batch["token"];
  return model(token, token.device() == kShapes ? Tensor() : batch.on_host("length"));
}

Json TextEvaluation::details() const {
  const metrics::ConfusionMatrix* matrix = scores_.confusion();
  if (!matrix) return Json::object();
  Json per_class = Json::array();
  for (Index c = 0; c < matrix->classes; ++c) {
    std::int64_t texts = 0, taken = 0;
    for (Index other = 0; other < matrix->classes; ++other) {
      texts += matrix->at(c, other);
      taken += matrix->at(other, c);
    }
    const std::int64_t right = matrix->at(c, c);
    per_class.push_back({{"name", classes_.at(static_cast<std::size_t>(c))},
                         {"texts", texts},
                         {"recall", share(right, texts)},
                         {"precision", share(right, taken)}});
  }
  return {{"classes", classes_}, {"confusion", matrix->rows()}, {"per_class", per_class}};
}

std::vector<Artifact> TextEvaluation::artifacts() const {
  const metrics::ConfusionMatrix* matrix = scores_.confusion();
  if (!matrix) return {};
  return {{"confusion.csv", matrix->csv(classes_)}};
}

}  // namespace tandem::tasks
