#include "studies/inspect/headroom.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "files/input.h"
#include "files/safetensors.h"
#include "train/setup.h"

namespace tandem::inspect {

namespace {

constexpr int kGreatestExponent = 15;

LayerHeadroom headroom_of(const std::string& name, const amp::ExponentHistogram& gradients, int log2_scale) {
  LayerHeadroom layer{.name = name};
  if (const auto highest = gradients.highest()) layer.bits = kGreatestExponent - *highest - log2_scale;
  const auto nonzero = gradients.total() - gradients.zeros() - gradients.non_finite();
  if (nonzero > 0)
    layer.flushed = static_cast<double>(gradients.flushed(log2_scale)) / static_cast<double>(nonzero);
  return layer;
}

}  // namespace

std::vector<std::string> HeadroomReport::narrow() const {
  std::vector<std::string> names;
  for (const LayerHeadroom& layer : layers)
    if (layer.bits && *layer.bits < 1) names.push_back(layer.name);
  return names;
}

HeadroomReport headroom(const GradientReport& gradients, int log2_scale) {
  HeadroomReport report{.log2_scale = log2_scale,
                        .all = headroom_of(gradients.all.name, gradients.all.activations, log2_scale)};
  for (const LayerGradients& layer : gradients.layers)
    if (layer.activations.total() > 0)
      report.layers.push_back(headroom_of(layer.name, layer.activations, log2_scale));
  return report;
}

int log2_scale_of(const config::Loaded& loaded, const runs::Weights& weights) {
  double scale = train::precision_of(loaded.config).scaler.initial;
  const auto state = std::filesystem::path(weights.path).parent_path() / "state.safetensors";
  if (!weights.path.empty() && files::kind_of(state) != files::Kind::absent) {
    const safetensors::File file(state.string());
    if (file.find("scaler.values")) scale = file.read("scaler.values").to_vector<double>().at(0);
  }
  return std::ilogb(scale);
}

}  // namespace tandem::inspect
