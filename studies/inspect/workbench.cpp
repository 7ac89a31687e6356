#include "studies/inspect/workbench.h"

#include <fmt/core.h>

#include "core/backend.h"
#include "core/error.h"
#include "core/random.h"
#include "models/builder.h"
#include "runs/checkpoints.h"
#include "runs/weights.h"
#include "train/evaluate.h"
#include "train/perturbation.h"
#include "train/setup.h"
#include "train/skipped_samples.h"

namespace tandem::train {

datasets::Batch noise_batch(const Shape& sample, DType dtype, Index size, Index classes, std::uint64_t seed) {
  const Tensor image = Tensor::zeros(sample.inserted(0, size), {.dtype = dtype, .kind = MemoryKind::data});
  if (is_floating(dtype))
    backend_for({}).random_normal({.seed = seed, .purpose = RandomPurpose::synthetic_data}, image, 0.0, 1.0);
  RandomStream random({.seed = seed, .purpose = RandomPurpose::synthetic_data, .call = 1});
  std::vector<std::int64_t> labels(static_cast<std::size_t>(size));
  for (auto& label : labels) label = random.below(static_cast<std::uint32_t>(classes));
  return {{{"image", image}, {"label", Tensor::from(labels, {size})}}, size};
}

Workbench::Workbench(const config::Loaded& loaded, const std::string& weights, Index batch_size)
    : config_(loaded.config), batch_size_(batch_size > 0 ? batch_size : config_.data.batch_size) {
  tasks::DataDescription data;
  try {
    const datasets::Splits splits =
        open_data(config_, [](const std::string& reason) { warn_of_skipped(reason); });
    data = describe_data(splits);
    datasets::Pipeline pipeline = datasets::training_pipeline(splits, augmentations(config_));
    sample_ = pipeline.output_shape();
    loader_ = std::make_unique<datasets::Loader>(
        splits.train, std::move(pipeline),
        datasets::LoaderOptions{.batch_size = std::min(batch_size_, splits.train->size()),
                                .shuffle = config_.data.shuffle,
                                .drop_last = true,
                                .threads = static_cast<int>(config_.data.workers),
                                .seed = static_cast<std::uint64_t>(config_.seed)});
    held_out_ = std::make_unique<datasets::Loader>(
        splits.validation ? splits.validation : splits.test,
        datasets::evaluation_pipeline(splits, augmentations(config_)),
        datasets::LoaderOptions{.batch_size = *config_.data.eval_batch_size});
  } catch (const UserError& error) {
    if (weights.empty()) throw;
    data = tasks::data_description(runs::saved_data(weights));
    sample_ = datasets::training_pipeline(without_samples(data), augmentations(config_)).output_shape();
    notes_.push_back(fmt::format("the data cannot be read ({}); batches are noise", error.what()));
  }
  classes_ = data.info.classes;
  dtype_ = datasets::batch_dtype(data.info);
  model_ = make_model(loaded, data, sample_);
  if (weights.empty()) {
    for (std::string& note : initialise_from(config_, *model_)) notes_.push_back(std::move(note));
    perturb(*model_, static_cast<std::uint64_t>(config_.seed), config_.init_ulps);
    notes_.emplace_back("weights: as training starts");
  } else {
    const safetensors::File file(weights);
    const std::string differences = runs::compare_weights(*model_, file).differences();
    require(differences.empty(), "",
            "{}: are not the weights of the model that this configuration and its data make: {}", weights,
            differences);
    runs::load_weights(*model_, file);
    notes_.push_back("weights: " + weights);
  }
  task_ = tasks::make_task(config_, models::output_shape(*model_, sample_, dtype_));
  optimizer_ = make_optimizer(config_, *model_);
  model_->train();
}

Workbench::~Workbench() = default;

datasets::Batch Workbench::next_batch() {
  ++served_;
  if (!loader_)
    return noise_batch(sample_, dtype_, batch_size_, classes_,
                       static_cast<std::uint64_t>(config_.seed) + served_);
  auto batch = loader_->next();
  return batch ? *std::move(batch) : *loader_->next();
}

Tensor Workbench::loss(const datasets::Batch& batch, const amp::Plan& plan, std::uint32_t step) {
  const RandomScope random(static_cast<std::uint64_t>(config_.seed), step, 0);
  const amp::Autocast autocast(plan);
  return task_->loss((*model_)(batch["image"]), batch);
}

runs::Metrics Workbench::evaluate() {
  require(held_out_ != nullptr, "", "there is no data to evaluate on");
  return train::evaluate(*model_, *held_out_, *task_)->metrics();
}

std::unique_ptr<optim::Step> Workbench::make_step(const amp::Precision& precision,
                                                  std::optional<optim::Schedule> schedule) {
  optim::StepOptions options = amp::step_options(precision, static_cast<std::uint64_t>(config_.seed));
  options.schedule = schedule ? std::move(*schedule) : optim::constant(optim::learning_rate(config_.optimizer));
  options.clip_norm = config_.clip_norm;
  options.clip_value = config_.clip_value;
  return std::make_unique<optim::Step>(*model_, std::vector<optim::Optimizer*>{optimizer_.get()},
                                       std::move(options));
}

}  // namespace tandem::train
