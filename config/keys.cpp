// Keys of the configuration: name, type, range, and one line of help. Defaults are those of config.h.
#include <fmt/core.h>

#include "config/config.h"
#include "core/error.h"
#include "optim/scaler.h"

namespace tandem::config {

namespace {

constexpr std::int64_t kMany = 1'000'000'000;

Rule at_least(double min) { return {.min = min}; }
Rule between(double min, double max) { return {.min = min, .max = max}; }
Rule share() { return {.min = 0.0, .max = 1.0}; }
Rule one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }

}  // namespace

const Schema& ScalerConfig::schema() {
  std::vector<std::string> modes{"auto", "none", "dynamic", "calibrated", "segments"};
  for (const optim::ScalerPreset& preset : optim::scaler_presets()) {
    if (preset.name != "tandem") modes.emplace_back(preset.name);
  }
  const auto by_mode = [](Rule rule) {
    rule.keyword = "auto";
    return rule;
  };
  static const Schema schema =
      Describe<ScalerConfig>()
          .key("mode", &ScalerConfig::mode,
               "loss scaling; auto: dynamic for fp16, none for bf16; calibrated: dynamic, starting from the "
               "highest scale at which FP32 gradients would not overflow; segments: the same, with separate "
               "scales for parts of the model if no single scale fits; or the preset of another framework "
               "(`tandem ls presets`)",
               one_of(modes))
          .key("static", &ScalerConfig::static_scale, "fixed loss scale, a power of two",
               {.min = 0x1p-24, .max = 0x1p60})
          .key("initial", &ScalerConfig::initial, "initial scale, a power of two; auto: 65536, or the mode's",
               by_mode(between(0x1p-24, 0x1p60)))
          .key("growth", &ScalerConfig::growth,
               "factor after `interval` clean steps, a power of two; auto: 2, or the mode's",
               by_mode(between(1, 65536)))
          .key("backoff", &ScalerConfig::backoff,
               "factor after an overflow, a power of two; auto: 0.5, or the mode's",
               by_mode({.min = 0.0, .max = 1.0, .open_min = true}))
          .key("interval", &ScalerConfig::interval,
               "steps without overflow before the scale grows; auto: 2000, or the mode's",
               by_mode(between(1, kMany)))
          .key("counter", &ScalerConfig::counter,
               "condition for growth: the interval-th clean step in a row, every interval-th since the last "
               "overflow, or the one after it; auto: consecutive, or the mode's",
               one_of({"auto", "consecutive", "modulo", "modulo_plus_one"}))
          .key("hysteresis", &ScalerConfig::hysteresis,
               "the n-th overflow lowers the scale; auto: 1, or the mode's", by_mode(between(1, kMany)))
          .key("refill", &ScalerConfig::refill,
               "event that resets the hysteresis; auto: clean, or the mode's",
               one_of({"auto", "clean", "growth", "clean_and_backoff"}))
          .key("floor", &ScalerConfig::floor, "lowest scale; auto: 1, or the mode's",
               by_mode({.min = 0.0, .max = 0x1p60, .open_min = true}))
          .key("ceiling", &ScalerConfig::ceiling, "highest scale; auto: 16777216, or the mode's",
               by_mode({.min = 0.0, .max = 0x1p127, .open_min = true}))
          .key("floor_action", &ScalerConfig::floor_action,
               "action on an overflow at the floor: stay there, stop the run, or clip and zero the "
               "gradients; auto: raise, or the mode's",
               one_of({"auto", "clamp", "raise", "sanitize"}))
          .key("delayed", &ScalerConfig::delayed, "apply a new scale one step late; auto: by mode",
               by_mode({}))
          .key("tolerance", &ScalerConfig::tolerance,
               "share of overflows in the steps since the last change below which the scale is not lowered; "
               "auto: 0",
               by_mode(share()))
          .key("scope", &ScalerConfig::scope,
               "unit with a separate loss scale: the whole iteration, each loss, or each phase of the task",
               one_of({"global", "loss", "optimizer"}))
          .key("batches", &ScalerConfig::batches,
               "for modes calibrated and segments: number of batches whose gradients are measured before the "
               "first step; auto: 4",
               by_mode(between(1, 4096)))
          .short_key("mode");
  return schema;
}

const Schema& LayerTypesConfig::schema() {
  static const Schema schema =
      Describe<LayerTypesConfig>()
          .key("forward", &LayerTypesConfig::forward, "dtype of the results of its ops",
               one_of({"fp32", "fp16", "bf16"}))
          .key("math", &LayerTypesConfig::math, "dtype of the operands of products; auto: as forward",
               one_of({"auto", "fp32", "fp16", "bf16"}))
          .key("backward", &LayerTypesConfig::backward,
               "dtype of the gradients of its 16-bit results; fp32 avoids underflow without a loss scale; "
               "auto: as forward",
               one_of({"auto", "fp32", "fp16", "bf16"}))
          .short_key("forward");
  return schema;
}

const Schema& OpListsConfig::schema() {
  static const Schema schema =
      Describe<OpListsConfig>()
          .key("allow", &OpListsConfig::allow, "ops to run in 16 bits")
          .key("deny", &OpListsConfig::deny, "ops to run in FP32")
          .key("infer", &OpListsConfig::infer, "ops that follow the dtype of their inputs");
  return schema;
}

const Schema& PrecisionConfig::schema() {
  static const Schema schema =
      Describe<PrecisionConfig>()
          .key("level", &PrecisionConfig::level,
               "O0 FP32, O1 casts per op, O2 all 16-bit with FP32 masters, O3 16-bit only: presets of the "
               "keys below",
               one_of({"O0", "O1", "O2", "O3"}))
          .key("dtype", &PrecisionConfig::dtype, "16-bit dtype", one_of({"fp16", "bf16"}))
          .key("cast", &PrecisionConfig::cast,
               "ops in 16 bits: none, by cast rules (ops), or all that support it",
               one_of({"auto", "none", "ops", "all"}))
          .key("masters", &PrecisionConfig::masters,
               "master weights: FP32, or none, so that updated weights are rounded to 16 bits",
               one_of({"auto", "fp32", "none"}))
          .key("rounding", &PrecisionConfig::rounding, "rounding of weights without masters",
               one_of({"nearest", "stochastic"}))
          .key("state_dtype", &PrecisionConfig::state_dtype, "dtype of the optimizer state",
               one_of({"fp32", "fp16", "bf16"}))
          .key("scaler", &PrecisionConfig::scaler, "loss scaling")
          .key("on_skip", &PrecisionConfig::on_skip,
               "action after an overflow: drop the batch, or retry the step at a lower scale",
               one_of({"drop", "retry"}))
          .key("diagnose", &PrecisionConfig::diagnose,
               "number of overflowed steps that are replayed to find the op, tensor and index of the first "
               "non-finite value",
               between(0, kMany))
          .key("max_skips", &PrecisionConfig::max_skips,
               "number of consecutive skipped steps, including retries, that ends the run", between(1, kMany))
          .key("wgrad", &PrecisionConfig::wgrad,
               "keep weight gradients in FP32, or first round them to 16 bits", one_of({"fp32", "lower"}))
          .key("batch_norm", &PrecisionConfig::batch_norm,
               "dtype of running statistics and parameters of batch norm: FP32, or 16-bit; auto: 16-bit only "
               "at O3",
               one_of({"auto", "fp32", "lower"}))
          .key("lists", &PrecisionConfig::lists, "ops with a changed cast rule")
          .key("layers", &PrecisionConfig::layers,
               "regular expression on layer names → dtypes of those layers")
          .key("plan", &PrecisionConfig::plan,
               "at level O1, file of `tandem plan` with the dtypes of every op; auto: make a plan at the "
               "start of the run, and keep it in the run directory")
          .preset("fp32", {{"level", "O0"}})
          .preset("amp_fp16", {{"level", "O1"}, {"dtype", "fp16"}})
          .preset("amp_bf16", {{"level", "O1"}, {"dtype", "bf16"}});
  return schema;
}

std::string PrecisionConfig::label() const {
  const Value value = load_options(schema(), this);
  if (value.is(Value::Kind::string)) return value.text;
  return is_fp32() ? "fp32" : fmt::format("{}/{}{}", level, dtype, plan ? "/plan" : "");
}

const Schema& EmaConfig::schema() {
  static const Schema schema =
      Describe<EmaConfig>()
          .key("decay", &EmaConfig::decay, "share of the old average that is kept at each applied step",
               {.min = 0.0, .max = 1.0, .open_max = true})
          .key("warmup", &EmaConfig::warmup,
               "start with a smaller decay, so that early weights lose influence quickly");
  return schema;
}

const Schema& InitConfig::schema() {
  static const Schema schema =
      Describe<InitConfig>()
          .key("path", &InitConfig::path,
               "a .safetensors file, a checkpoint, or a run, whose best weights are used", {.required = true})
          .key("strict", &InitConfig::strict,
               "refuse missing, unexpected and mis-shaped tensors instead of reporting them")
          .key("freeze", &InitConfig::freeze, "regular expression on the names of parameters to freeze")
          .key("vocabulary", &InitConfig::vocabulary,
               "vocabulary of texts: built from this data, with word tables copied word by word; or that of "
               "the weights",
               {.choices = {"from data", "from run"}})
          .short_key("path");
  return schema;
}

const Schema& EvalConfig::schema() {
  static const Schema schema =
      Describe<EvalConfig>().key("every_epochs", &EvalConfig::every_epochs,
                                 "epochs between evaluations; 0: only at the end", between(0, 1e6));
  return schema;
}

const Schema& CheckpointConfig::schema() {
  static const Schema schema =
      Describe<CheckpointConfig>()
          .key("every_epochs", &CheckpointConfig::every_epochs,
               "epochs between checkpoints; 0: only at the end", between(0, 1e6))
          .key("every_steps", &CheckpointConfig::every_steps,
               "steps between additional checkpoints within an epoch", between(1, kMany))
          .key("keep", &CheckpointConfig::keep,
               "number of latest checkpoints to keep in addition to the best", between(2, 1e6))
          .key("on_save_error", &CheckpointConfig::on_save_error,
               "action if a checkpoint or metrics cannot be written, for instance on a full disk: stop the "
               "run, or continue and try again at the next checkpoint; earlier checkpoints stay",
               one_of({"stop", "continue"}));
  return schema;
}

const Schema& ParallelConfig::schema() {
  static const Schema schema =
      Describe<ParallelConfig>()
          .key("per_rank", &ParallelConfig::per_rank,
               "data.batch_size is the batch of each process, and the global batch is larger by the number "
               "of processes; default: data.batch_size is the global batch")
          .key("reduction", &ParallelConfig::reduction,
               "reduction of gradients: fast, in the order of ranks or of MPI; reproducible, in a fixed tree "
               "over `shards`, with the same bits for any number of processes",
               one_of({"fast", "reproducible"}))
          .key("shards", &ParallelConfig::shards,
               "number of parts of a batch, each with separate gradients and batch-norm statistics, which "
               "processes divide among them; auto: the number of processes; with `reproducible` 8, or for "
               "small batches the largest power of two",
               {.min = 1, .max = 4096, .keyword = "auto"})
          .key("bucket_mb", &ParallelConfig::bucket_mb,
               "megabytes of gradients per all-reduce, which overlaps with backward; 0: a single all-reduce "
               "after backward; needs `fast` and one shard per process",
               between(0.0, 1e6))
          .key("wire", &ParallelConfig::wire,
               "dtype of gradients in messages; 16 bits halve the traffic and round; fp16 needs a loss "
               "scale; needs `fast` and one shard per process",
               one_of({"fp32", "bf16", "fp16"}))
          .key("sync_batch_norm", &ParallelConfig::sync_batch_norm,
               "synchronise batch-norm statistics over the whole batch instead of each process's part; needs "
               "`fast` and one shard per process")
          .key("shard_optimizer", &ParallelConfig::shard_optimizer,
               "each process updates a part of the weights and holds only the optimizer state of that part")
          .key("deadline_s", &ParallelConfig::deadline_s,
               "seconds that a process waits for another one before it aborts the run",
               {.min = 0.0, .max = 1e6, .open_min = true})
          .key("check_every", &ParallelConfig::check_every,
               "steps between checks that all processes hold the same weights and optimizer state, which are "
               "also checked before each checkpoint; 0: never",
               between(0, kMany));
  return schema;
}

const Schema& CompareConfig::schema() {
  static const Schema schema =
      Describe<CompareConfig>()
          .key("arms", &CompareConfig::arms,
               "fp32, fp32_null (one ulp off), a precision by name, or an object: keys of `precision`, "
               "\"precision\" for the preset to start from, and \"name\" for the arm; empty: fp32, "
               "fp32_null, amp_fp16, amp_bf16")
          .key("seeds", &CompareConfig::seeds,
               "number of runs of every arm, with the seeds seed, seed + 1, …", between(1, 1000))
          .key("margin", &CompareConfig::margin,
               "largest difference that counts as equivalent: percentage points of accuracy, or units of the "
               "loss",
               {.min = 0.0, .max = 1e6, .open_min = true})
          .key("speed_steps", &CompareConfig::speed_steps, "steps per block of the speed measurement",
               between(50, 1e6))
          .key("speed_rounds", &CompareConfig::speed_rounds,
               "rounds of four blocks, arm and fp32 in turns, in new processes", between(1, 1000));
  return schema;
}

const Schema& Config::schema() {
  static const Schema schema =
      Describe<Config>()
          .key("name", &Config::name, "name of the run; default: the name of the file")
          .rule("name", "must be a folder name: without /, and neither . nor ..",
                [](const Config& config) {
                  return config.name.find('/') == std::string::npos && config.name != "." &&
                         config.name != "..";
                })
          .choice(&Config::task)
          .section("data", &Config::data, "training data")
          .options_of(&Config::task)
          .key("optimizer", &Config::optimizer, "optimizer")
          .key("optimizers", &Config::optimizers,
               "optimizers by name, for tasks with several trained networks or parts; others use `optimizer`")
          .key("schedule", &Config::schedule, "learning-rate schedule")
          .key("precision", &Config::precision, "precision of the training step")
          .key("epochs", &Config::epochs, "passes over the training data", between(0, 1e6))
          .key("accumulate", &Config::accumulate,
               "gradient accumulation: batches per update, which uses their mean gradient; see "
               "loss.batch_weight",
               between(1, 4096))
          .key("clip_norm", &Config::clip_norm, "maximum norm of the whole gradient",
               {.min = 0.0, .max = 1e30, .open_min = true})
          .key("clip_value", &Config::clip_value, "maximum magnitude of a gradient element",
               {.min = 0.0, .max = 1e30, .open_min = true})
          .key("ema", &Config::ema,
               "exponential moving average of the weights, used for evaluation and checkpoints")
          .key("asgd", &Config::asgd,
               "averaged SGD: from a stall of checkpoint.best on, the mean of the weights is used for "
               "evaluation and checkpoints; not with ema")
          .rule("asgd", "averages the weights as ema does; use only one of them",
                [](const Config& config) { return !config.asgd || !config.ema; })
          .key("init_from", &Config::init_from, "initial weights")
          .section("eval", &Config::eval, "evaluation during training")
          .section("checkpoint", &Config::checkpoint, "checkpoints")
          .section("parallel", &Config::parallel,
                   "data parallel training in several processes, started by mpirun")
          .key("compare", &Config::compare, "arms and criteria of `tandem compare`")
          .key("log_every", &Config::log_every, "steps between step events in metrics.jsonl",
               between(1, kMany))
          .key("tensorboard", &Config::tensorboard,
               "write event files for TensorBoard in the run directory: metrics of steps and evaluations, "
               "configuration")
          .key("tensorboard_histograms", &Config::tensorboard_histograms,
               "include the distribution of every parameter and its gradient at each evaluation")
          .key("on_divergence", &Config::on_divergence,
               "action on a non-finite loss: stop the run, or continue", one_of({"stop", "continue"}))
          .key("seed", &Config::seed, "seed of all random numbers: weights, order, augmentation, dropout",
               at_least(0))
          .key("init_ulps", &Config::init_ulps,
               "perturb initial weights by so many units in the last place (measures run-to-run noise); 0: "
               "off",
               between(0, 1 << 20))
          .key("device", &Config::device, "device; auto: a GPU if there is one",
               one_of({"auto", "cpu", "cuda"}))
          .key("allow_tf32", &Config::allow_tf32,
               "on a GPU, products of FP32 values may round them to TF32, with 10 bits of mantissa")
          .key("deterministic", &Config::deterministic,
               "on a GPU, use only algorithms with the same bits in every run; a CPU always does")
          .key("autotune", &Config::autotune,
               "on a GPU, choose algorithms by timing, and keep the choices with the run; not with "
               "deterministic")
          .key("cuda_graph", &Config::cuda_graph,
               "on a GPU, record steps once and replay them as CUDA graphs; auto: if possible",
               one_of({"auto", "on", "off"}))
          .key("threads", &Config::threads, "number of CPU threads",
               {.min = 1, .max = 1024, .keyword = "auto"})
          .key("run_dir", &Config::run_dir, "run directory; {name} and {time} are replaced");
  return schema;
}

std::string Config::best() const {
  const Value best = task.value("checkpoint.best");
  ensure(best.is(Value::Kind::string), "task", "{} has no checkpoint.best to choose the best epoch by",
         task.name());
  return best.text;
}

}  // namespace tandem::config
