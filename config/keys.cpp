// Every key of the configuration: name, type, range, and one line of help. Defaults are those of config.h.
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
          .key(
              "mode", &ScalerConfig::mode,
              "loss scaling; auto: dynamic for fp16, none for bf16; calibrated: dynamic, from the highest "
              "scale that gradients in FP32 leave room for; segments: the same, with scales of their own for "
              "parts of the model where no single one fits; or the scaler of another framework by name "
              "(`tandem ls presets`)",
              one_of(modes))
          .key("static", &ScalerConfig::static_scale, "a fixed scale, a power of two",
               {.min = 0x1p-24, .max = 0x1p60})
          .key("initial", &ScalerConfig::initial, "first scale, a power of two; auto: 65536, or the mode's",
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
               "which of them makes it grow: the interval-th in a row, every interval-th since the last "
               "overflow, or the one after it; auto: consecutive, or the mode's",
               one_of({"auto", "consecutive", "modulo", "modulo_plus_one"}))
          .key("hysteresis", &ScalerConfig::hysteresis,
               "the n-th overflow lowers the scale; auto: 1, or the mode's", by_mode(between(1, kMany)))
          .key("refill", &ScalerConfig::refill,
               "what fills the hysteresis up again; auto: clean, or the mode's",
               one_of({"auto", "clean", "growth", "clean_and_backoff"}))
          .key("floor", &ScalerConfig::floor, "lowest scale; auto: 1, or the mode's",
               by_mode({.min = 0.0, .max = 0x1p60, .open_min = true}))
          .key("ceiling", &ScalerConfig::ceiling, "highest scale; auto: 16777216, or the mode's",
               by_mode({.min = 0.0, .max = 0x1p127, .open_min = true}))
          .key("floor_action", &ScalerConfig::floor_action,
               "an overflow at the floor: stay there, stop the run, or clip and zero the gradients; auto: "
               "raise, or the mode's",
               one_of({"auto", "clamp", "raise", "sanitize"}))
          .key("delayed", &ScalerConfig::delayed,
               "a new scale takes effect one step late; auto: as the mode says", by_mode({}))
          .key("tolerance", &ScalerConfig::tolerance,
               "overflows that are a smaller share of the steps since the last change lower nothing; auto: 0",
               by_mode(share()))
          .key("scope", &ScalerConfig::scope,
               "what has a scale of its own: the whole iteration, every loss, or every phase of the task",
               one_of({"global", "loss", "optimizer"}))
          .key("batches", &ScalerConfig::batches,
               "of modes calibrated and segments: batches whose gradients they look at before the first "
               "step; auto: 4",
               by_mode(between(1, 4096)))
          .short_key("mode");
  return schema;
}

const Schema& LayerTypesConfig::schema() {
  static const Schema schema =
      Describe<LayerTypesConfig>()
          .key("forward", &LayerTypesConfig::forward, "what the results of its ops are stored in",
               one_of({"fp32", "fp16", "bf16"}))
          .key("math", &LayerTypesConfig::math,
               "what operands of products are multiplied in; auto: as forward",
               one_of({"auto", "fp32", "fp16", "bf16"}))
          .key("backward", &LayerTypesConfig::backward,
               "gradients of its 16-bit results: fp32 keeps them from being flushed without a loss scale; "
               "auto: as forward",
               one_of({"auto", "fp32", "fp16", "bf16"}))
          .short_key("forward");
  return schema;
}

const Schema& OpListsConfig::schema() {
  static const Schema schema = Describe<OpListsConfig>()
                                   .key("allow", &OpListsConfig::allow, "ops to run in 16 bits")
                                   .key("deny", &OpListsConfig::deny, "ops to run in FP32")
                                   .key("infer", &OpListsConfig::infer, "ops that follow their inputs");
  return schema;
}

const Schema& PrecisionConfig::schema() {
  static const Schema schema =
      Describe<PrecisionConfig>()
          .key("level", &PrecisionConfig::level,
               "O0 FP32, O1 casts per op, O2 all 16-bit with FP32 masters, O3 16-bit only: presets of the "
               "keys "
               "that follow",
               one_of({"O0", "O1", "O2", "O3"}))
          .key("dtype", &PrecisionConfig::dtype, "the 16-bit type", one_of({"fp16", "bf16"}))
          .key("cast", &PrecisionConfig::cast,
               "ops run in 16 bits: none, by their cast rules, or all that can",
               one_of({"auto", "none", "ops", "all"}))
          .key("masters", &PrecisionConfig::masters,
               "FP32 masters of the weights, or none: updates are rounded to 16 bits when they are stored",
               one_of({"auto", "fp32", "none"}))
          .key("rounding", &PrecisionConfig::rounding, "of weights without masters",
               one_of({"nearest", "stochastic"}))
          .key("state_dtype", &PrecisionConfig::state_dtype, "type of the optimizer's state",
               one_of({"fp32", "fp16", "bf16"}))
          .key("scaler", &PrecisionConfig::scaler, "loss scaling")
          .key("on_skip", &PrecisionConfig::on_skip,
               "a step that overflowed: drop the batch, or retry it at a lower scale",
               one_of({"drop", "retry"}))
          .key("diagnose", &PrecisionConfig::diagnose,
               "overflowed steps that are run again to find the op, tensor and index that began it",
               between(0, kMany))
          .key("max_skips", &PrecisionConfig::max_skips,
               "steps skipped in a row that end the run, retries included", between(1, kMany))
          .key("wgrad", &PrecisionConfig::wgrad, "weight gradients kept in FP32, or rounded to 16 bits first",
               one_of({"fp32", "lower"}))
          .key("batch_norm", &PrecisionConfig::batch_norm,
               "running statistics and parameters of batch norm: FP32, or 16-bit; auto: 16-bit at O3 only",
               one_of({"auto", "fp32", "lower"}))
          .key("lists", &PrecisionConfig::lists, "ops moved from one cast rule to another")
          .key("layers", &PrecisionConfig::layers,
               "regular expression on layer names → types of those layers")
          .key("plan", &PrecisionConfig::plan,
               "at level O1, the types of every op as `tandem plan` has written them to this file; auto: a "
               "plan is made when the run starts, and kept in its directory")
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
          .key("decay", &EmaConfig::decay, "share of the average kept at each applied step",
               {.min = 0.0, .max = 1.0, .open_max = true})
          .key("warmup", &EmaConfig::warmup,
               "start with a smaller decay, so that early weights are soon forgotten");
  return schema;
}

const Schema& InitConfig::schema() {
  static const Schema schema =
      Describe<InitConfig>()
          .key("path", &InitConfig::path,
               "a .safetensors file, a checkpoint, or a run whose best weights are taken", {.required = true})
          .key("strict", &InitConfig::strict,
               "refuse missing, unexpected and mis-shaped tensors instead of listing them")
          .key("freeze", &InitConfig::freeze,
               "regular expression on the names of parameters that are not trained")
          .key(
              "vocabulary", &InitConfig::vocabulary,
              "of texts: made from this data, and tables are taken over word by word; or that of the weights",
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
               "steps between further checkpoints inside an epoch", between(1, kMany))
          .key("keep", &CheckpointConfig::keep, "how many checkpoints stay besides the best one",
               between(2, 1e6))
          .key("on_save_error", &CheckpointConfig::on_save_error,
               "a checkpoint or metrics that cannot be written, because of a full disk for instance: stop "
               "the run, or continue and try again at the next one; earlier checkpoints stay either way",
               one_of({"stop", "continue"}));
  return schema;
}

const Schema& ParallelConfig::schema() {
  static const Schema schema =
      Describe<ParallelConfig>()
          .key("per_rank", &ParallelConfig::per_rank,
               "data.batch_size is that of each process, and the batch of a step so many times as large; by "
               "default it is the step's, divided among the processes")
          .key("reduction", &ParallelConfig::reduction,
               "how gradients are added: fast, in the order of ranks or one of MPI's, or reproducible, in a "
               "fixed tree over "
               "`shards`, which gives the same bits with any number of processes",
               one_of({"fast", "reproducible"}))
          .key("shards", &ParallelConfig::shards,
               "parts of a batch that are computed apart, each with gradients and batch-norm statistics of "
               "its own, and divided among the processes; auto: as many as processes, or with `reproducible` "
               "8, or as many as a batch has samples, down to a power of two",
               {.min = 1, .max = 4096, .keyword = "auto"})
          .key(
              "bucket_mb", &ParallelConfig::bucket_mb,
              "megabytes of gradients that are added up in one piece, while backward makes others; 0: all of "
              "them, after it; with `fast` and one shard a process",
              between(0.0, 1e6))
          .key(
              "wire", &ParallelConfig::wire,
              "what gradients are sent as: with 16 bits half as much, rounded; fp16 needs a loss scale; with "
              "`fast` and one shard a process",
              one_of({"fp32", "bf16", "fp16"}))
          .key("sync_batch_norm", &ParallelConfig::sync_batch_norm,
               "batch norm takes its statistics over the whole batch, not over each process's part; with "
               "`fast` "
               "and one shard a process")
          .key("shard_optimizer", &ParallelConfig::shard_optimizer,
               "each process updates a part of the weights, and holds the optimizer state of that part alone")
          .key("deadline_s", &ParallelConfig::deadline_s,
               "seconds that a process waits for another one before it gives the run up",
               {.min = 0.0, .max = 1e6, .open_min = true})
          .key("check_every", &ParallelConfig::check_every,
               "steps between two checks that all processes hold the same weights and optimizer state; they "
               "are also checked before they are saved; 0: never",
               between(0, kMany));
  return schema;
}

const Schema& CompareConfig::schema() {
  static const Schema schema =
      Describe<CompareConfig>()
          .key("arms", &CompareConfig::arms,
               "fp32, fp32_null (one ulp off), a precision by name, or an object: keys of `precision`, with "
               "\"precision\" for the name they start from and \"name\" for the arm's own; empty: fp32, "
               "fp32_null, amp_fp16, amp_bf16")
          .key("seeds", &CompareConfig::seeds, "runs of every arm, with the seeds seed, seed + 1, …",
               between(1, 1000))
          .key("margin", &CompareConfig::margin,
               "largest difference that counts as none: percentage points of accuracy, or units of the loss",
               {.min = 0.0, .max = 1e6, .open_min = true})
          .key("speed_steps", &CompareConfig::speed_steps, "steps of a block when speed is measured",
               between(50, 1e6))
          .key("speed_rounds", &CompareConfig::speed_rounds,
               "rounds of four blocks, arm and fp32 in turn, in fresh processes", between(1, 1000));
  return schema;
}

const Schema& Config::schema() {
  static const Schema schema =
      Describe<Config>()
          .key("name", &Config::name, "name of the run; the file's own name by default")
          .rule("name", "names a folder: it has no / and is neither . nor ..",
                [](const Config& config) {
                  return config.name.find('/') == std::string::npos && config.name != "." &&
                         config.name != "..";
                })
          .choice(&Config::task)
          .section("data", &Config::data, "what to train on")
          .options_of(&Config::task)
          .key("optimizer", &Config::optimizer, "the update rule")
          .key(
              "optimizers", &Config::optimizers,
              "update rules by name, where a task trains several networks or parts: those that are not named "
              "here take `optimizer`")
          .key("schedule", &Config::schedule, "course of the learning rate")
          .key("precision", &Config::precision, "arithmetic of the training step")
          .key("epochs", &Config::epochs, "passes over the training data", between(0, 1e6))
          .key("accumulate", &Config::accumulate,
               "batches whose mean gradient makes one update; see loss.batch_weight", between(1, 4096))
          .key("clip_norm", &Config::clip_norm, "largest norm of the whole gradient",
               {.min = 0.0, .max = 1e30, .open_min = true})
          .key("clip_value", &Config::clip_value, "largest magnitude of a gradient element",
               {.min = 0.0, .max = 1e30, .open_min = true})
          .key("ema", &Config::ema, "average of the weights, evaluated and saved in their place")
          .key("asgd", &Config::asgd,
               "from a stall of the evaluations on, by checkpoint.best: mean of the weights, evaluated and "
               "saved "
               "in their place (averaged SGD); not with ema")
          .rule("asgd", "averages the weights as ema does; take one of them",
                [](const Config& config) { return !config.asgd || !config.ema; })
          .key("init_from", &Config::init_from, "weights to start from")
          .section("eval", &Config::eval, "evaluation during training")
          .section("checkpoint", &Config::checkpoint, "what is saved, and when")
          .section("parallel", &Config::parallel, "training by several processes, which mpirun starts")
          .key("compare", &Config::compare, "what `tandem compare` trains, and how it judges")
          .key("log_every", &Config::log_every, "steps between two step events in metrics.jsonl",
               between(1, kMany))
          .key("tensorboard", &Config::tensorboard,
               "event files for TensorBoard in the run directory: figures of steps and evaluations, the "
               "configuration")
          .key("tensorboard_histograms", &Config::tensorboard_histograms,
               "in these also the distribution of every parameter and its gradient at each evaluation")
          .key("on_divergence", &Config::on_divergence,
               "a loss that is not finite: stop the run, or continue", one_of({"stop", "continue"}))
          .key("seed", &Config::seed, "of every random number: weights, order, augmentation, dropout",
               at_least(0))
          .key("init_ulps", &Config::init_ulps,
               "initial weights moved up or down at random by so many units in the last place: the floor "
               "that chance sets; 0: none",
               between(0, 1 << 20))
          .key("device", &Config::device, "where to compute; auto: on a GPU when there is one",
               one_of({"auto", "cpu", "cuda"}))
          .key("allow_tf32", &Config::allow_tf32,
               "on a GPU, products of FP32 numbers may round them to TF32, with 10 bits of mantissa")
          .key("deterministic", &Config::deterministic,
               "on a GPU, only algorithms that give the same bits in every run; a CPU always does")
          .key(
              "autotune", &Config::autotune,
              "on a GPU, algorithms are chosen by timing them, and the choice is kept with the run; not with "
              "deterministic")
          .key("cuda_graph", &Config::cuda_graph,
               "on a GPU, steps are recorded once and done as one piece; auto: where that is possible",
               one_of({"auto", "on", "off"}))
          .key("threads", &Config::threads, "threads of a computation",
               {.min = 1, .max = 1024, .keyword = "auto"})
          .key("run_dir", &Config::run_dir, "directory of the run; {name} and {time} are replaced");
  return schema;
}

std::string Config::best() const {
  const Value best = task.value("checkpoint.best");
  ensure(best.is(Value::Kind::string), "task", "{} does not say by what the best epoch is chosen",
         task.name());
  return best.text;
}

}  // namespace tandem::config
