// Printed answer of a classifier for one input of `tandem predict`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace tandem::tasks {

// Prints the most likely class, or `request.top` of them, with probabilities, or with logits if requested: as
// a line, or with `json` as an object with "input", the members of `more`, and "predictions". Unnamed classes
// are numbers. NaN comes last, as null in JSON.
void print_answer(const std::string& input, std::span<const float> values,
                  const std::vector<std::string>& class_names, const PredictRequest& request);
void print_answer(const std::string& input, const Json& more, std::span<const float> values,
                  const std::vector<std::string>& class_names, const PredictRequest& request);

}  // namespace tandem::tasks
