#include "amp/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tandem::amp {

namespace {

constexpr int kGreatestExponent = 15, kSpareBits = 3;
constexpr double kFlushedShare = 1e-3;
constexpr int kAnyLow = -ExponentHistogram::kHighest - 26;  // FP16 flushes everything to zero there

// Windows along a backward pass, from the loss to the input, and their owners.
struct Stops {
  std::vector<ScaleStop> stops;
  std::vector<std::string> names;
  std::vector<std::size_t> links;  // link of each stop; of a border the link behind it

  void add(const ScaleStop& stop, const std::string& name, std::size_t link) {
    stops.push_back(stop);
    names.push_back(name);
    links.push_back(link);
  }
};

// The scaler's bounds, which hold for the scale of the first segment.
ScaleWindow bounds_of(const optim::ScalerOptions& scaler) {
  return {.low = static_cast<int>(std::ceil(std::log2(scaler.floor))),
          .high = static_cast<int>(std::floor(std::log2(scaler.ceiling)))};
}

Stops stops_of(const BackwardLinks& links, const optim::ScalerOptions& scaler) {
  Stops stops;
  stops.add({bounds_of(scaler)}, "precision.scaler (floor, ceiling)", 0);
  for (std::size_t i = 0; i < links.links.size(); ++i) {
    const BackwardLinks::Link& link = links.links[i];
    if (i > 0)
      if (const auto window = window_of(link.behind, kAnyLow))
        stops.add({.window = *window, .border = true}, link.border + " (its output)", i);
    for (auto layer = link.layers.rbegin(); layer != link.layers.rend(); ++layer)
      if (const auto window = window_of(layer->activations, kAnyLow)) stops.add({*window}, layer->name, i);
  }
  return stops;
}

// The first segment has the scaler's scale; the others start at the upper ends of their windows.
std::vector<ScaleSegment> segments_from(const std::vector<ScaleSpan>& spans, const Stops& stops,
                                        const BackwardLinks& links) {
  std::vector<ScaleSegment> segments;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const ScaleSpan& span = spans[i];
    std::size_t lowest = span.first, highest = span.first;
    for (std::size_t stop = span.first; stop <= span.last; ++stop) {
      if (stops.stops[stop].window.low > stops.stops[lowest].window.low) lowest = stop;
      if (stops.stops[stop].window.high < stops.stops[highest].window.high) highest = stop;
    }
    const std::size_t first_link = i == 0 ? 0 : stops.links[span.first];
    const std::size_t end = i + 1 == spans.size() ? links.links.size() : stops.links[spans[i + 1].first];
    ScaleSegment segment{.border = links.links[first_link].border,
                         .log2_scale = span.window.high,
                         .window = span.window,
                         .lowest = stops.names[lowest],
                         .highest = stops.names[highest]};
    for (std::size_t link = first_link; link < end; ++link)
      std::ranges::copy(links.links[link].parameters, std::back_inserter(segment.parameters));
    segments.push_back(std::move(segment));
  }
  return segments;
}

}  // namespace

std::optional<ScaleWindow> window_of(const ExponentHistogram& gradients, int lowest) {
  const auto highest = gradients.highest();
  if (!highest) return std::nullopt;
  const double allowed =
      kFlushedShare * static_cast<double>(gradients.total() - gradients.zeros() - gradients.non_finite());
  ScaleWindow window{.low = lowest, .high = kGreatestExponent - *highest - kSpareBits};
  while (static_cast<double>(gradients.flushed(window.low)) > allowed) ++window.low;
  return window;
}

namespace {

// The window may be empty.
Calibration windows_of(std::span<const GradientCollector::Layer> layers, int batches) {
  Calibration found{.layers = {}, .batches = batches};
  for (const GradientCollector::Layer& layer : layers) {
    const auto window = window_of(layer.activations);
    if (!window) continue;
    if (found.layers.empty() || window->low > found.window.low) {
      found.window.low = window->low;
      found.lowest = layer.name;
    }
    if (found.layers.empty() || window->high < found.window.high) {
      found.window.high = window->high;
      found.highest = layer.name;
    }
    found.layers.push_back({layer.name, *window});
  }
  require(!found.layers.empty(), "scaler",
          "calibration saw only zero gradients in {} batches; check the loss, or set "
          "precision.scaler to dynamic",
          batches);
  return found;
}

}  // namespace

Calibration calibration_of(std::span<const GradientCollector::Layer> layers, int batches) {
  Calibration found = windows_of(layers, batches);
  require(
      !found.window.empty(), "scaler",
      "no loss scale fits all layers: the gradients of {} need at least 2^{} in FP16, those of {} at most "
      "2^{}; set precision.scaler to segments, use BF16 (precision=amp_bf16), keep gradients of {} in FP32 "
      "(precision.layers, \"backward\": \"fp32\"), or set precision.scaler to dynamic",
      found.lowest, found.window.low, found.highest, found.window.high, found.lowest);
  return found;
}

Calibration segmented(std::span<const GradientCollector::Layer> layers, const BackwardLinks& links,
                      int batches, const optim::ScalerOptions& scaler) {
  Calibration found = windows_of(layers, batches);
  if (!found.window.empty()) {
    ScaleSegment whole{.border = "loss",
                       .log2_scale = start_of(found, scaler),
                       .window = found.window,
                       .lowest = found.lowest,
                       .highest = found.highest};
    for (const BackwardLinks::Link& link : links.links)
      std::ranges::copy(link.parameters, std::back_inserter(whole.parameters));
    found.segments.push_back(std::move(whole));
    return found;
  }
  const Stops stops = stops_of(links, scaler);
  const ScaleSpans spans = fewest_spans(stops.stops);
  if (spans.apart) {
    const auto [low, high] = *spans.apart;
    throw UserError(
        "scaler",
        fmt::format(
            "no segments of the loss scale fit: the gradients of {} need at least 2^{} in FP16, those of {} "
            "at "
            "most 2^{}, and none of the {} module outputs at which the scale may change lies between them "
            "with a "
            "gradient that fits both; use BF16 (precision=amp_bf16), or keep gradients of {} in FP32 "
            "(precision.layers, \"backward\": \"fp32\") and set precision.scaler to dynamic",
            stops.names[low], stops.stops[low].window.low, stops.names[high], stops.stops[high].window.high,
            links.links.size() - 1, stops.names[low]));
  }
  found.segments = segments_from(spans.spans, stops, links);
  return found;
}

int within(const optim::ScalerOptions& scaler, int log2) {
  const ScaleWindow bounds = bounds_of(scaler);
  return std::clamp(log2, bounds.low, std::max(bounds.low, bounds.high));
}

int start_of(const Calibration& calibration, const optim::ScalerOptions& scaler) {
  if (!calibration.segments.empty()) return calibration.segments.front().log2_scale;
  return within(scaler, calibration.window.high);
}

namespace {

std::string text_of(const ScaleSegment& segment) {
  return fmt::format("from {}{} on 2^{} (window 2^{}, {}, to 2^{}, {})",
                     segment.border == "loss" ? "the " : "the output of ", segment.border, segment.log2_scale,
                     segment.window.low, segment.lowest, segment.window.high, segment.highest);
}

}  // namespace

std::string to_string(const Calibration& calibration) {
  if (calibration.segments.size() > 1) {
    std::vector<std::string> segments;
    for (const ScaleSegment& segment : calibration.segments) segments.push_back(text_of(segment));
    return fmt::format(
        "loss scale: calibrated on {} batch{} in FP32: no single scale fits; {} segments, {}; dynamic from "
        "there, together",
        calibration.batches, calibration.batches == 1 ? "" : "es", segments.size(),
        fmt::join(segments, ", "));
  }
  return fmt::format(
      "loss scale: calibrated on {} batch{} in FP32: window 2^{} ({}) to 2^{} ({}); starts at its upper end, "
      "dynamic from there",
      calibration.batches, calibration.batches == 1 ? "" : "es", calibration.window.low, calibration.lowest,
      calibration.window.high, calibration.highest);
}

}  // namespace tandem::amp
