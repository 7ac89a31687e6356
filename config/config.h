// The configuration as plain structs, with the default values of the program. Key documentation and ranges
// live in keys.cpp, or next to the struct of a task, optimizer or schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/schema.h"
#include "data/loading.h"
#include "optim/averaging_start.h"
#include "optim/registry.h"
#include "optim/schedules.h"
#include "tasks/registry.h"

namespace tandem::config {

// Absent values are set by `mode`.
struct ScalerConfig {
  std::string mode = "auto";
  std::optional<double> static_scale;
  std::optional<double> initial, growth, backoff;
  std::optional<std::int64_t> interval;
  std::string counter = "auto";
  std::optional<std::int64_t> hysteresis;
  std::string refill = "auto";
  std::optional<double> floor, ceiling;
  std::string floor_action = "auto";
  std::optional<bool> delayed;
  std::optional<double> tolerance;
  std::string scope = "global";
  std::optional<std::int64_t> batches;
  static const Schema& schema();
};

// Dtypes of layers, as in NVCaffe.
struct LayerTypesConfig {
  std::string forward = "fp32", math = "auto", backward = "auto";
  static const Schema& schema();
};

struct OpListsConfig {
  std::vector<std::string> allow, deny, infer;
  static const Schema& schema();
};

// An object without "level" means mixed precision; without any object, Config::precision is FP32.
struct PrecisionConfig {
  std::string level = "O1";
  std::string dtype = "bf16";
  std::string cast = "auto";
  std::string masters = "auto";
  std::string rounding = "nearest";
  std::string state_dtype = "fp32";
  ScalerConfig scaler;
  std::string on_skip = "drop";
  std::int64_t diagnose = 3;
  std::int64_t max_skips = 50;
  std::string wgrad = "fp32";
  std::string batch_norm = "auto";
  OpListsConfig lists;
  std::vector<std::pair<std::string, LayerTypesConfig>> layers;
  std::optional<std::string> plan;

  static PrecisionConfig fp32() {
    PrecisionConfig config;
    config.level = "O0";
    return config;
  }
  bool is_fp32() const { return cast == "none" || (cast == "auto" && level == "O0"); }
  // "fp32", "amp_bf16", "O2/fp16"
  std::string label() const;
  static const Schema& schema();
};

struct EmaConfig {
  double decay = 0.999;
  bool warmup = true;
  static const Schema& schema();
};

struct InitConfig {
  std::string path;
  bool strict = true;
  std::optional<std::string> freeze;
  std::string vocabulary = "from data";
  static const Schema& schema();
  bool takes_vocabulary() const { return vocabulary == "from run"; }
};

struct EvalConfig {
  std::int64_t every_epochs = 1;
  static const Schema& schema();
};

struct CheckpointConfig {
  std::int64_t every_epochs = 1;
  std::optional<std::int64_t> every_steps;
  std::int64_t keep = 2;
  std::string on_save_error = "stop";
  static const Schema& schema();
};

// Arms and criteria of `tandem compare`.
struct CompareConfig {
  std::vector<Json> arms;  // empty: the four default arms
  std::int64_t seeds = 5;
  double margin = 0.5;
  std::int64_t speed_steps = 50, speed_rounds = 5;
  static const Schema& schema();
};

// Options of data-parallel training (docs/clusters.md).
struct ParallelConfig {
  bool per_rank = false, sync_batch_norm = false, shard_optimizer = false;
  std::string reduction = "fast";
  std::optional<std::int64_t> shards;
  double bucket_mb = 25.0;
  std::string wire = "fp32";
  double deadline_s = 60.0;
  std::int64_t check_every = 1000;
  static const Schema& schema();
};

struct Config {
  std::string name;  // of the run; default: the name of the configuration file
  Choice<tasks::registry> task;
  datasets::LoadingOptions data;  // keys of `data` for the loader; others belong to the task
  Choice<optim::optimizers> optimizer;
  std::vector<std::pair<std::string, Choice<optim::optimizers>>>
      optimizers;  // by phase, instead of `optimizer`
  optim::ScheduleOptions schedule;
  PrecisionConfig precision = PrecisionConfig::fp32();
  std::int64_t epochs = 10;
  std::int64_t accumulate = 1;
  std::optional<double> clip_norm, clip_value;
  std::optional<EmaConfig> ema;
  std::optional<optim::AveragingOptions> asgd;
  std::optional<InitConfig> init_from;
  EvalConfig eval;
  CheckpointConfig checkpoint;
  ParallelConfig parallel;
  std::optional<CompareConfig> compare;
  std::int64_t log_every = 1;
  bool tensorboard = true, tensorboard_histograms = true;
  std::string on_divergence = "stop";
  std::int64_t seed = 1;
  std::int64_t init_ulps = 0;
  std::string device = "auto";
  bool allow_tf32 = true, deterministic = false, autotune = true;
  std::string cuda_graph = "auto";
  std::optional<std::int64_t> threads;
  std::string run_dir = "runs/{name}-{time}";

  // checkpoint.best, which is a key of the task.
  std::string best() const;
  static const Schema& schema();
};

}  // namespace tandem::config
