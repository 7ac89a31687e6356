#include "models/advice.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "models/matrix_units.h"

namespace tandem::models {

namespace {

double filled_by(const LayerSummary& layer, const UnitSize& unit) {
  return filled(layer.inputs, unit.k) * filled(layer.outputs, unit.n);
}

}  // namespace

std::vector<ShapeAdvice> shape_advice(const ModelSummary& summary) {
  std::vector<ShapeAdvice> result;
  for (const LayerSummary& layer : summary.layers) {
    if (layer.inputs == 0) continue;
    const ShapeAdvice advice{
        .layer = layer.name,
        .inputs = layer.inputs,
        .outputs = layer.outputs,
        .tensor_cores = filled_by(layer, kTensorCore),
        .amx = filled_by(layer, kAmx),
        .flop_share =
            summary.flop > 0 ? static_cast<double>(layer.own_flop) / static_cast<double>(summary.flop) : 0.0};
    if (advice.tensor_cores < 1.0 || advice.amx < 1.0) result.push_back(advice);
  }
  std::ranges::stable_sort(result, std::ranges::greater{}, &ShapeAdvice::flop_share);
  return result;
}

std::string to_string(const ShapeAdvice& advice) {
  std::string text =
      fmt::format("{}: {} → {} fills {:.1f} % of tensor cores and {:.1f} % of AMX tiles", advice.layer,
                  advice.inputs, advice.outputs, 100.0 * advice.tensor_cores, 100.0 * advice.amx);
  const bool cores = advice.tensor_cores < 1.0;
  const UnitSize& unit = cores ? kTensorCore : kAmx;
  const Index inputs = filled_up(advice.inputs, unit.k), outputs = filled_up(advice.outputs, unit.n);
  if (advice.inputs < 4) return text;  // the channels of an image are given
  if (inputs != advice.inputs || outputs != advice.outputs)
    text += fmt::format("; {} → {} would fill {}", inputs, outputs, cores ? "tensor cores" : "AMX tiles");
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
