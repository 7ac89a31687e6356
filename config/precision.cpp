#include "config/precision.h"

#include <optional>

#include "core/error.h"

namespace tandem::config {

namespace {

DType dtype_of(const std::string& name) {
  return name == "fp16" ? DType::f16 : name == "bf16" ? DType::bf16 : DType::f32;
}

std::optional<DType> type_or_auto(const std::string& name) {
  return name == "auto" ? std::nullopt : std::optional(dtype_of(name));
}

amp::LayerRule rule_of(const std::string& match, const LayerTypesConfig& from) {
  return {.match = match,
          .dtype = dtype_of(from.forward),
          .math = type_or_auto(from.math),
          .backward = type_or_auto(from.backward)};
}

amp::Level level_of(const PrecisionConfig& from) {
  if (from.cast == "none") return amp::Level::O0;
  if (from.cast == "ops") return amp::Level::O1;
  const amp::Level level = from.level == "O0"   ? amp::Level::O0
                           : from.level == "O1" ? amp::Level::O1
                           : from.level == "O2" ? amp::Level::O2
                                                : amp::Level::O3;
  return from.cast == "all" && level < amp::Level::O2 ? amp::Level::O2 : level;
}

// Keys of a dynamic scaler contradict a fixed scale.
bool has_rules(const ScalerConfig& from) {
  return from.initial || from.growth || from.backoff || from.interval || from.hysteresis || from.floor ||
         from.ceiling || from.delayed || from.tolerance || from.scope != "global" || from.counter != "auto" ||
         from.refill != "auto" || from.floor_action != "auto";
}

optim::ScalerOptions moving(const ScalerConfig& from, const std::string& preset) {
  optim::ScalerOptions options = optim::scaler_preset(preset);
  options.initial = from.initial.value_or(options.initial);
  options.growth = from.growth.value_or(options.growth);
  options.backoff = from.backoff.value_or(options.backoff);
  options.interval = from.interval.value_or(options.interval);
  options.hysteresis = static_cast<int>(from.hysteresis.value_or(options.hysteresis));
  options.floor = from.floor.value_or(options.floor);
  options.ceiling = from.ceiling.value_or(options.ceiling);
  options.delayed = from.delayed.value_or(options.delayed);
  options.tolerance = from.tolerance.value_or(options.tolerance);
  if (from.counter != "auto")
    options.counter = from.counter == "consecutive" ? CleanCount::consecutive
                      : from.counter == "modulo"    ? CleanCount::modulo
                                                    : CleanCount::modulo_plus_one;
  if (from.refill != "auto")
    options.refill = from.refill == "clean"    ? Refill::clean
                     : from.refill == "growth" ? Refill::growth
                                               : Refill::clean_and_backoff;
  if (from.floor_action != "auto")
    options.floor_action = from.floor_action == "clamp"   ? FloorAction::clamp
                           : from.floor_action == "raise" ? FloorAction::raise
                                                          : FloorAction::sanitize;
  options.scope = from.scope == "loss"        ? optim::ScalerScope::loss
                  : from.scope == "optimizer" ? optim::ScalerScope::optimizer
                                              : optim::ScalerScope::global;
  optim::check(options);
  return options;
}

optim::ScalerOptions scaler_of(const ScalerConfig& from, bool fp16) {
  const bool segments = from.mode == "segments", calibrated = segments || from.mode == "calibrated";
  require(
      calibrated || !from.batches, "scaler",
      "batches applies only to modes calibrated and segments; set mode to one of them, or remove batches");
  require(!calibrated || fp16, "scaler",
          "mode {} finds a scale for fp16, and nothing runs in fp16 (level O3 has no scaler); set dtype to "
          "fp16, or mode to none",
          from.mode);
  require(!calibrated || !from.initial, "scaler",
          "mode {} finds the initial scale; remove initial, or set mode to dynamic", from.mode);
  require(!segments || from.scope == "global", "scaler",
          "mode segments moves the scales of all segments together, and scope {} gives each its own scaler; "
          "leave scope out, or set mode to dynamic",
          from.scope);
  if (from.static_scale) {
    require(from.mode == "auto" || from.mode == "none", "scaler",
            "a static scale contradicts mode {}: give only one of them", from.mode);
    require(!has_rules(from), "scaler", "a static scale does not change: remove the keys of a dynamic scale");
    return optim::ScalerOptions::fixed(*from.static_scale);
  }
  const bool none = from.mode == "none" || (from.mode == "auto" && !fp16);
  if (!none)
    return moving(from, from.mode == "auto" || from.mode == "dynamic" || calibrated ? "tandem" : from.mode);
  require(!has_rules(from), "scaler", "{} contradicts the other keys of the scaler; set mode to dynamic",
          from.mode == "none" ? "no scaler" : "no scaler (mode auto has one only if something runs in fp16)");
  return optim::ScalerOptions::none();
}

}  // namespace

amp::Precision precision_of(const PrecisionConfig& from) {
  require(from.cast != "none" || from.level == "O0", "precision",
          "cast none with level {}: nothing would run in 16 bits; use level O0", from.level);
  amp::Precision precision{
      .level = level_of(from),
      .dtype = dtype_of(from.dtype),
      .masters = from.masters == "auto" ? from.level != "O3" : from.masters == "fp32",
      .stochastic_rounding = from.rounding == "stochastic",
      .state_dtype = dtype_of(from.state_dtype),
      .lower_batch_norm = from.batch_norm == "lower" || (from.batch_norm == "auto" && from.level == "O3"),
      .round_weight_gradients = from.wgrad == "lower",
      .lists = {from.lists.allow, from.lists.deny, from.lists.infer}};
  for (const auto& [match, layer] : from.layers) precision.layers.push_back(rule_of(match, layer));
  // O3 is the pure 16-bit baseline: it has no scaler by default.
  const bool fp16 = precision.runs_in(DType::f16) && from.level != "O3";
  precision.scaler = scaler_of(from.scaler, fp16);
  amp::check(precision);
  require(!from.plan || precision.is_plain_o1(), "precision",
          "a plan sets the dtypes of every op, starting from level O1: use that level, and leave out lists, "
          "layers and batch_norm");
  require(!from.plan || !from.plan->empty(), "precision",
          "plan is empty; give a file that `tandem plan` wrote, or auto");
  require(from.on_skip != "retry" || precision.scaler.moves(), "precision",
          "on_skip retry needs a dynamic loss scale: with a fixed one, or none, the step would overflow "
          "again; use drop");
  return precision;
}

}  // namespace tandem::config
