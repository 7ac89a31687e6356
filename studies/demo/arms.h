// Arms of a demonstration about loss scales, and their results.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "report/plot/svg.h"
#include "studies/demo/demo.h"

namespace tandem::demo {

struct Arm {
  std::string name;
  amp::Precision precision;
};

// Path of the text that a demonstration reads. Throws UserError if it is missing.
std::string text_path(const Session& session, const std::string& demo);

// FP32; FP16 without a loss scale, with a constant one, and with the dynamic one: in this order.
std::vector<Arm> scaling_arms(double constant);

struct ArmResult {
  double perplexity = 0.0;  // of the validation text
  std::int64_t skipped = 0;
  plot::Line curve;  // training perplexity over steps

  // Adds the loss of every fifth step to the curve, and tells the loss of every fiftieth.
  void log(std::int64_t step, std::int64_t steps, const Tensor& loss, Session& session);
};

// Prints the table, draws the chart "perplexity", and returns the arms for demo.json.
Json show_arms(Session& session, const std::string& title, std::span<const Arm> arms,
               std::span<const ArmResult> results);

}  // namespace tandem::demo
