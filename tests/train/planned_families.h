// A small model of each family, with a step of one of its phases on a synthetic batch, under any precision.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "amp/plan/rules.h"
#include "amp/planned_policy.h"
#include "amp/trace.h"
#include "config/task.h"
#include "tests/support/temporary_files.h"
#include "train/learners.h"
#include "train/planned.h"
#include "train/setup.h"
#include "train/step_runner.h"

namespace tandem::testing {

inline const std::vector<std::string>& planned_families() {
  static const std::vector<std::string> names = {"classification", "attention", "segmentation",
                                                 "detection",      "language",  "text_classification",
                                                 "translation"};
  return names;
}

// And each phase of a GAN, by its name.
inline std::vector<std::string> planned_forwards() {
  std::vector<std::string> names = planned_families();
  names.insert(names.end(), {"discriminator", "generator"});
  return names;
}

// A configuration with its files, which last as long as it.
class PlannedFamily {
 public:
  explicit PlannedFamily(const std::string& family, const std::string& precision = "amp_bf16") {
    std::vector<std::string> overrides{"precision=" + precision};
    if (family == "classification") {
      overrides.insert(overrides.end(), {"data.batch_size=8", "model.width=4", "data.image_size=8"});
      loaded = config::load("resnet20_synthetic", overrides);
    } else if (family == "attention") {
      loaded = config::load("fashion_attention", {"data.batch_size=2", "precision=" + precision});
    } else if (family == "segmentation") {
      overrides.insert(overrides.end(),
                       {"data.batch_size=2", "model.width=4", "model.levels=2", "data.image_size=32"});
      loaded = config::load("unet_scenes", overrides);
    } else if (family == "detection") {
      overrides.insert(overrides.end(), {"data.batch_size=2", "optimizer.lr=0.001"});
      loaded = config::load("ssd_scenes", overrides);
    } else if (family == "discriminator" || family == "generator") {
      overrides.insert(overrides.end(), {"data.batch_size=4", "model.width=4", "model.noise=8"});
      loaded = config::load("dcgan_fashion", overrides);
      phase = family == "generator" ? 1 : 0;
    } else {
      loaded = config::load(directory_.write("config.json", of_text(family).dump()), overrides);
    }
    data = family == "language" || family.starts_with("t") ? config::open_data(loaded.config, {})
                                                           : config::describe_data(loaded.config);
  }

 private:
  TemporaryDirectory directory_;

 public:
  config::Loaded loaded;
  tasks::DataPtr data;
  std::size_t phase = 0;

  amp::TracedModel traced(Index most_samples = 0) const {
    return train::trace_of(loaded, data, phase, most_samples);
  }

 private:
  nlohmann::json of_text(const std::string& family) const {
    std::string lines;
    for (int i = 0; i < 200; ++i) {
      const char* const label = i % 3 == 0 ? "zero\t" : i % 3 == 1 ? "one\t" : "two\t";
      if (family != "language") lines += label;
      for (int w = 0; w <= i % 5; ++w) lines += "w" + std::to_string((i * 7 + w * w) % 13) + " ";
      lines += "\n";
    }
    const std::string path = directory_.write("text", lines);
    nlohmann::json config{{"task", family}, {"optimizer", {{"name", "sgd"}, {"lr", 0.1}}}};
    if (family == "language") {
      config["model"] = {{"name", "language_model"}, {"embedding", 8},  {"units", 8},
                         {"dropout", 0.2},           {"num_layers", 2}, {"tied", true}};
      config["data"] = {{"name", "text"}, {"train", path}, {"batch_size", 3}, {"steps", 5}};
    } else if (family == "text_classification") {
      config["model"] = {{"name", "text_classifier"}, {"embedding", 6}, {"units", 5}, {"dropout", 0.2}};
      config["data"] = {
          {"name", "labelled_lines"}, {"train", path}, {"test", path}, {"max_words", 7}, {"batch_size", 8}};
    } else {
      config["model"] = {{"name", "encoder_decoder"}, {"embedding", 6},      {"units", 5},
                         {"encoder_layers", 2},       {"decoder_layers", 2}, {"dropout", 0.2}};
      config["data"] = {{"name", "text_pairs"},
                        {"train", {{"table", path}}},
                        {"test", {{"table", path}}},
                        {"validation_fraction", 0.1},
                        {"source_codec", "characters"},
                        {"target_codec", "spaces"},
                        {"max_length", 8},
                        {"batch_size", 8}};
    }
    return config;
  }
};

// Training steps of a family on a made-up batch of the host.
class PlannedSteps {
 public:
  explicit PlannedSteps(const PlannedFamily& family) : loaded(family.loaded), phase(family.phase) {
    task = config::make_task(loaded, family.data);
    train::freeze_parameters(loaded.config, task->model());
    learners = std::make_unique<train::Learners>(
        *task, loaded, train::step_options(loaded.config),
        [&](double lr) { return train::make_schedule(loaded.config, lr, 100, 100); });
    batch = task->synthetic_batch(loaded.config.data.batch_size, 1, {});
  }

  Tensor forward(std::uint32_t step = 0) {
    return train::loss_of_phase(*task, phase, batch, {.seed = 1, .step = step}, &carry);
  }

  struct Outcome {
    double loss = 0.0;
    std::vector<float> gradients;
    friend bool operator==(const Outcome&, const Outcome&) = default;
  };

  // A step of the phase, whose gradients are kept.
  Outcome run(const amp::ResolvedPrecision& plan, std::uint32_t number = 0, bool ends_iteration = true) {
    optim::Step& step = *(*learners)[phase].step;
    Tensor loss;
    {
      const amp::Autocast autocast(plan, phase);
      loss = forward(number);
      autocast.finish();
    }
    step.backward(loss, static_cast<double>(batch.samples));
    Outcome outcome{.loss = loss.item(), .gradients = {}};
    for (const Parameter& parameter : task->phases()[phase].trained->parameters()) {
      const Tensor gradient = parameter.gradient();
      if (!gradient.defined()) continue;
      const std::vector<float> values = gradient.to_vector<float>();
      outcome.gradients.insert(outcome.gradients.end(), values.begin(), values.end());
    }
    step.apply();
    if (ends_iteration) learners->end_iteration();
    return outcome;
  }

  amp::ResolvedPrecision planned(const amp::plan::Graph& graph, const amp::plan::Assignment& assignment,
                                 bool share) {
    const std::size_t ops = graph.ops.size();
    const amp::Precision precision = train::precision_of(loaded.config);
    plan = amp::plan::plan_of(graph, assignment, std::vector<amp::plan::Why>(ops, amp::plan::Why::rule),
                              precision.dtype, share, std::vector<bool>(ops));
    plan.model.phase = task->phases()[phase].name;
    amp::plan::PhasePlans phases(phase, {.dtype = precision.dtype});
    phases.push_back(plan);
    return amp::ResolvedPrecision(
        std::make_shared<const amp::PlannedTypes>(phases, "plan.json", precision, task->model()));
  }

  config::Loaded loaded;
  std::size_t phase = 0;
  std::unique_ptr<tasks::Task> task;
  std::unique_ptr<train::Learners> learners;
  datasets::Batch batch;
  tasks::CarriedState carry;
  amp::plan::PrecisionPlan plan;  // of the last call of planned()
};

}  // namespace tandem::testing
