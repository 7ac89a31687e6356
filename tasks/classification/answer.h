// The answer of a classifier for one input, as `tandem predict` prints it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace tandem::tasks {

// The likeliest `request.top` classes, or the first, by probabilities, or by logits where the request asks
// for those: a line, or with `json` an object with "input", what `more` has, and "predictions". Classes
// without a name are numbers. A value that is no number comes last, as null in JSON.
void print_answer(const std::string& input, std::span<const float> values,
                  const std::vector<std::string>& class_names, const PredictRequest& request);
void print_answer(const std::string& input, const Json& more, std::span<const float> values,
                  const std::vector<std::string>& class_names, const PredictRequest& request);

}  // namespace tandem::tasks
