#include "runs/metrics.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "core/build_info.h"
#include "core/error.h"
#include "files/json_text.h"

namespace tandem::runs {

namespace {

using Json = nlohmann::ordered_json;

Json as_json(const Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = value;
  return json;
}

}  // namespace

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

std::string line_of(const StartEvent& event) {
  Json kinds = Json::object();
  for (const auto& [name, kind] : event.kinds)
    kinds[name] = Json{{"share", kind.share}, {"greater_is_better", kind.greater_is_better}};
  return files::json_text(Json{{"event", "start"},
                               {"time", utc_now()},
                               {"version", version()},
                               {"parameters", event.parameters},
                               {"precision", event.precision},
                               {"device", event.device},
                               {"step", event.step},
                               {"metrics", kinds}});
}

std::string line_of(const StepEvent& event) {
  Json line{{"event", "step"}, {"step", event.step}};
  if (!event.phase.empty()) line["phase"] = event.phase;
  line.update(Json{{"applied", event.applied},
                   {"epoch", event.epoch},
                   {"loss", event.loss},
                   {"lr", event.lr},
                   {"loss_scale", event.loss_scale},
                   {"skipped", event.skipped},
                   {"grad_norm", event.grad_norm},
                   {"items_per_s", event.items_per_s}});
  return files::json_text(line);
}

std::string line_of(const EvalEvent& event) {
  return files::json_text(Json{{"event", "eval"},
                               {"step", event.step},
                               {"epoch", event.epoch},
                               {"split", event.split},
                               {"metrics", as_json(event.metrics)}});
}

std::string checkpoint_line(std::int64_t step, const std::string& path) {
  return files::json_text(Json{{"event", "checkpoint"}, {"step", step}, {"path", path}});
}

std::string line_of(const OverflowEvent& event) {
  Json line{{"event", "overflow"}, {"step", event.step}};
  if (!event.phase.empty()) line["phase"] = event.phase;
  line.update(Json{{"loss_scale", event.loss_scale},
                   {"op", event.op},
                   {"tensor", event.tensor},
                   {"index", event.index},
                   {"where", event.where},
                   {"cause", event.cause}});
  return files::json_text(line);
}

std::string line_of(const GradientsEvent& event) {
  const amp::ExponentHistogram& weights = event.weights;
  const int first = weights.lowest().value_or(0);
  Json counts = Json::array();
  for (int e = first; e <= weights.highest().value_or(first - 1); ++e) counts.push_back(weights.count(e));
  const auto saving = weights.saving_scale();
  return files::json_text(Json{{"event", "gradients"},
                               {"step", event.step},
                               {"epoch", event.epoch},
                               {"loss_scale", event.loss_scale},
                               {"total", weights.total()},
                               {"zeros", weights.zeros()},
                               {"flushed", weights.flushed(0)},
                               {"saving_scale", saving ? Json(*saving) : Json()},
                               {"first", first},
                               {"counts", counts}});
}

std::string line_of(const PictureEvent& event) {
  return files::json_text(Json{{"event", "picture"},
                               {"step", event.step},
                               {"epoch", event.epoch},
                               {"name", event.name},
                               {"file", event.file}});
}

std::string line_of(const EndEvent& event) {
  return files::json_text(Json{{"event", "end"},
                               {"status", event.status},
                               {"steps", event.steps},
                               {"applied", event.applied},
                               {"skipped", event.skipped},
                               {"wall_s", event.wall_s},
                               {"peak_memory_bytes", event.peak_memory_bytes},
                               {"metrics", as_json(event.metrics)}});
}

}  // namespace tandem::runs
