#include "tasks/detection/finder.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "core/error.h"

namespace tandem::tasks {

namespace {

void to_probabilities(std::span<float> scores, std::size_t classes) {
  for (std::size_t at = 0; at < scores.size(); at += classes) {
    const std::span<float> row = scores.subspan(at, classes);
    const float most = std::ranges::max(row);
    float total = 0;
    for (float& value : row) total += value = std::exp(value - most);
    for (float& value : row) value /= total;
  }
}

}  // namespace

std::vector<std::vector<FoundBox>> find_boxes(const models::Ssd::Output& output, const Tensor& anchors,
                                              const SuppressionOptions& options) {
  std::vector<float> scores = output.scores.to_vector<float>();
  const std::vector<float> codes = output.codes.to_vector<float>(), grid = anchors.to_vector<float>();
  const auto images = static_cast<std::size_t>(output.scores.size(0)),
             classes = static_cast<std::size_t>(output.scores.size(2));
  std::vector<std::vector<FoundBox>> found(images);
  std::vector<std::exception_ptr> errors(images);
  const std::size_t each = images > 0 ? scores.size() / images : 0, boxes = grid.size();
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < images; ++i) {
    try {
      const std::span<float> own = std::span(scores).subspan(i * each, each);
      to_probabilities(own, classes);
      found[i] = find_boxes(own, std::span(codes).subspan(i * boxes, boxes), grid, options);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return found;
}

}  // namespace tandem::tasks
