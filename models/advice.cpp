#include "models/advice.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tandem::models {

namespace {

double filled(Index size, Index multiple) {
  const Index padded = (size + multiple - 1) / multiple * multiple;
  return static_cast<double>(size) / static_cast<double>(padded);
}

Index next_multiple(Index size, Index multiple) { return (size + multiple - 1) / multiple * multiple; }

}  // namespace

std::vector<ShapeAdvice> shape_advice(const ModelSummary& summary) {
  std::vector<ShapeAdvice> result;
  for (const LayerSummary& layer : summary.layers) {
    if (layer.inputs == 0) continue;
    const ShapeAdvice advice{
        .layer = layer.name,
        .inputs = layer.inputs,
        .outputs = layer.outputs,
        .tensor_cores = filled(layer.inputs, 8) * filled(layer.outputs, 8),
        .amx = filled(layer.inputs, 32) * filled(layer.outputs, 16),
        .flop_share =
            summary.flop > 0 ? static_cast<double>(layer.flop) / static_cast<double>(summary.flop) : 0.0};
    if (advice.tensor_cores < 1.0 || advice.amx < 1.0) result.push_back(advice);
  }
  std::ranges::stable_sort(result, std::ranges::greater{}, &ShapeAdvice::flop_share);
  return result;
}

std::string to_string(const ShapeAdvice& advice) {
  std::string text =
      fmt::format("{}: {} → {} fills {:.1f} % of tensor cores and {:.1f} % of AMX tiles", advice.layer,
                  advice.inputs, advice.outputs, 100.0 * advice.tensor_cores, 100.0 * advice.amx);
  const Index multiple = advice.tensor_cores < 1.0 ? 8 : 32;
  const Index inputs = next_multiple(advice.inputs, multiple);
  const Index outputs = next_multiple(advice.outputs, multiple == 8 ? 8 : 16);
  if (advice.inputs < 4) return text;  // an image has the channels it has
  if (inputs != advice.inputs || outputs != advice.outputs)
    text +=
        fmt::format("; {} → {} would fill {}", inputs, outputs, multiple == 8 ? "tensor cores" : "AMX tiles");
  return text;
}

double arithmetic_intensity(const ModelSummary& summary, Index batch) {
  const double bytes =
      static_cast<double>(summary.traffic_bytes) +
      static_cast<double>(summary.parameter_bytes) / static_cast<double>(std::max<Index>(1, batch));
  return bytes > 0.0 ? static_cast<double>(summary.flop) / bytes : 0.0;
}

double product_share(const ModelSummary& summary, const std::function<bool(const OpTime&)>& lowered) {
  double products = 0.0, all = 0.0;
  for (const OpTime& time : summary.times) {
    all += time.seconds;
    if (time.flop > 0 && lowered(time)) products += time.seconds;
  }
  return all > 0.0 ? products / all : 0.0;
}

double product_share(const ModelSummary& summary) {
  return product_share(summary, [](const OpTime& time) { return time.op->rule == CastRule::lower; });
}

double amdahl_bound(double lowered, double factor) {
  const double rest = 1.0 - lowered;
  return std::isinf(factor) ? 1.0 / rest : 1.0 / (rest + lowered / factor);
}

}  // namespace tandem::models
