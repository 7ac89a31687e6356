#include "optim/step/options.h"

#include <cmath>

#include "core/error.h"

namespace tandem::optim {

namespace {

void check_positive(const char* key, double value) {
  require(std::isfinite(value) && value > 0.0, "step", "{} must be positive, is {}", key, value);
}

void check_storage(const char* key, DType dtype) {
  require(is_16bit(dtype) || dtype == DType::f32, "step", "{} is {}, expected f32, f16 or bf16", key,
          name_of(dtype));
}

}  // namespace

void check(const StepOptions& options, const LossScaler& scaler, Device device) {
  require(options.accumulate >= 1, "step", "accumulate must be at least 1, is {}", options.accumulate);
  if (options.clip_norm) check_positive("clip_norm", *options.clip_norm);
  if (options.clip_value) check_positive("clip_value", *options.clip_value);
  const ScalerOptions& s = scaler.options();
  require(scaler.device() == device, "step", "the scaler is on {}, the parameters on {}",
          to_string(scaler.device()), to_string(device));
  require(options.check_gradients || (!options.clip_norm && !s.moves()), "step",
          "clip_norm and a dynamic loss scale need the gradients checked; check_gradients is off");
  require(options.skip_non_finite || s.backoff == 1.0, "step",
          "a dynamic loss scale needs skip_non_finite, which is off");
  if (const ShardExchange* shards = options.shards) {
    require(device == shards->device(), "step", "shards are added up on {}, the parameters are on {}",
            to_string(shards->device()), to_string(device));
    require(
        device == Device{} || (shards->own() == 1 && shards->bucket_bytes() > 0), "step",
        "{} shards of a process on {}: a device computes one shard, whose gradients are reduced in buckets",
        shards->own(), to_string(device));
    require(s.scope != ScalerScope::loss, "step",
            "a scale for each loss (scaler.scope) excludes a batch in shards");
    require(shards->own() >= 1 && shards->first() >= 0 && shards->first() + shards->own() <= shards->shards(),
            "step", "own shards {} to {} of {}: each process needs at least one", shards->first(),
            shards->first() + shards->own() - 1, shards->shards());
    check_positive("usual_samples", shards->usual_samples());
  }
  if (options.unit) check_positive("unit", *options.unit);
  require(
      options.update_parts == 1 || !options.rounding.stochastic, "step",
      "an update in {} parts excludes stochastic rounding, which draws by an element's place in the whole",
      options.update_parts);
  check_storage("rounding.weights", options.rounding.weights);
  check_storage("rounding.moments", options.rounding.moments);
  require(!options.rounding.stochastic || options.rounding.weights != DType::f32, "step",
          "stochastic rounding needs 16-bit weights: f32 masters are not rounded");
  if (const auto rounded = options.round_statistics) {
    require(is_16bit(*rounded), "step", "statistics are rounded to f16 or bf16, not {}", name_of(*rounded));
  }
}

}  // namespace tandem::optim
