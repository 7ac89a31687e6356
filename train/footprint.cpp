#include "train/footprint.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "core/memory_limit.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "core/units.h"
#include "nn/device.h"
#include "nn/layers/transformer_block.h"
#include "train/learners.h"
#include "train/setup.h"
#include "train/step_runner.h"

namespace tandem::train {

namespace {

std::size_t bytes_of(const MemoryFigures& figures, MemoryKind kind) {
  return figures.live_by_kind[static_cast<std::size_t>(kind)];
}

// Memory allocated since `before`. `live_by_kind` is taken at the peak of `after` or at its end.
MemoryFigures since(const MemoryFigures& before, const MemoryFigures& after, bool at_peak) {
  MemoryFigures taken;
  taken.live = after.live - before.live;
  taken.peak = after.peak - before.live;
  for (std::size_t kind = 0; kind < kMemoryKindCount; ++kind) {
    const std::size_t bytes = (at_peak ? after.peak_by_kind : after.live_by_kind)[kind];
    taken.live_by_kind[kind] = bytes - std::min(bytes, before.live_by_kind[kind]);
  }
  return taken;
}

void describe_parameters(const nn::Module& model, Footprint& footprint) {
  for (const Parameter& parameter : model.parameters()) {
    const Tensor& value = parameter.value();
    footprint.parameters += value.numel();
    if (parameter.trainable()) footprint.trainable += value.numel();
    if (value.bytes() <= footprint.largest_bytes) continue;
    footprint.largest_bytes = value.bytes();
    footprint.largest = fmt::format("{} {}", parameter.name(), tandem::to_string(value.shape()));
  }
}

// Memory of a step with each `recompute` of the model's Transformer blocks, which keep the last setting.
std::vector<MemoryFigures> for_each_recompute(nn::Module& model, const std::function<MemoryFigures()>& step) {
  std::vector<nn::TransformerBlock*> blocks;
  model.visit([&](const std::string&, nn::Module& module) {
    if (auto* const block = dynamic_cast<nn::TransformerBlock*>(&module)) blocks.push_back(block);
  });
  std::vector<MemoryFigures> figures;
  if (blocks.empty()) return figures;
  for (std::size_t part = 0; part < nn::kRecomputeNames.size(); ++part) {
    for (nn::TransformerBlock* const block : blocks) block->set_recompute(static_cast<nn::Recompute>(part));
    figures.push_back(step());
  }
  return figures;
}

std::string text(std::size_t bytes) { return bytes_text(static_cast<double>(bytes)); }

constexpr MemoryKind kModelKinds[] = {MemoryKind::weights, MemoryKind::masters, MemoryKind::gradients,
                                      MemoryKind::optimizer};

std::string model_text(const Footprint& footprint) {
  std::string parts;
  for (const MemoryKind kind : kModelKinds)
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name_of(kind),
                         text(bytes_of(footprint.model, kind)));
  return parts;
}

}  // namespace

Footprint footprint_of(const config::Loaded& loaded, const tasks::DataPtr& data, int update_parts) {
  const config::Config& config = loaded.config;
  Backend& shapes = shapes_backend();
  shapes.reset_peak_memory();
  const MemoryFigures before = shapes.memory();

  Footprint footprint;
  const nn::BuildDevice building(kShapes);
  const auto task = config::make_task(loaded, data);
  nn::Module& model = task->model();
  freeze_parameters(config, model);
  describe_parameters(model, footprint);
  // A plan may contain ops without kernels on device `shapes`; level O1 needs about as much memory.
  const auto precision = config.precision.plan
                             ? std::make_unique<amp::ResolvedPrecision>(precision_of(config))
                             : resolve_precision(loaded, model);
  optim::StepOptions options = step_options(config);
  options.update_parts = update_parts;
  options.accumulate += static_cast<int>(nn::kRecomputeNames.size());  // for the steps below
  Learners learners(*task, loaded, options, [](double lr) { return optim::constant(lr); });
  footprint.model = since(before, shapes.memory(), false);
  const std::size_t weights = bytes_of(footprint.model, MemoryKind::masters);
  footprint.save = 2 * weights + bytes_of(footprint.model, MemoryKind::optimizer);

  footprint.batch = config.data.batch_size;
  if (data->training_samples() > 0) footprint.batch = std::min(footprint.batch, data->training_samples());
  const datasets::Batch batch = task->synthetic_batch(footprint.batch, 0, kShapes);
  const auto step = [&] {
    model.clear_gradients();
    const amp::Autocast autocast(*precision);
    for (std::size_t phase = 0; phase < learners.size(); ++phase) {
      learners[phase].step->backward(
          loss_of_phase(*task, phase, batch, {.seed = static_cast<std::uint64_t>(config.seed)}),
          static_cast<double>(footprint.batch));
    }
    MemoryFigures figures = since(before, shapes.memory(), true);
    figures.peak = std::max(figures.peak, footprint.model.peak);
    return figures;
  };
  footprint.step = step();
  footprint.recompute = for_each_recompute(model, [&] {
    shapes.reset_peak_memory();
    return step();
  });
  footprint.notes = task->notes_of_data();
  return footprint;
}

std::string to_string(const Footprint& footprint) {
  return fmt::format(
      "{}; {} at the peak of a step on {} samples, {} of it activations, {} more during a checkpoint save",
      model_text(footprint), text(footprint.step.peak), footprint.batch,
      text(bytes_of(footprint.step, MemoryKind::activations)), text(footprint.save));
}

std::string recompute_text(const Footprint& footprint) {
  std::string parts;
  for (std::size_t part = 0; part < footprint.recompute.size(); ++part) {
    const MemoryFigures& step = footprint.recompute[part];
    parts += fmt::format("{}{} {}, {} of it activations", part == 0 ? "model.recompute: " : "; ",
                         nn::kRecomputeNames[part], text(step.peak),
                         text(bytes_of(step, MemoryKind::activations)));
  }
  return parts;
}

config::Json to_json(const Footprint& footprint) {
  config::Json json = config::Json::object();
  for (const MemoryKind kind : kModelKinds) json[name_of(kind)] = bytes_of(footprint.model, kind);
  const auto add_step = [](config::Json& to, const MemoryFigures& step) {
    to["step_peak"] = step.peak;
    to["activations"] = bytes_of(step, MemoryKind::activations);
  };
  add_step(json, footprint.step);
  for (std::size_t part = 0; part < footprint.recompute.size(); ++part)
    add_step(json["recompute"][nn::kRecomputeNames[part]], footprint.recompute[part]);
  json["batch"] = footprint.batch;
  return json;
}

void require_memory(const config::Loaded& loaded, const Footprint& footprint) {
  const std::size_t limit = host_memory_limit();
  const std::size_t optimizer = bytes_of(footprint.model, MemoryKind::optimizer);
  require(footprint.model.peak <= limit, "",
          "{}: model: training its {} parameters needs {} ({}), this machine has {}: use fewer units or "
          "layers{}; {} alone needs {}. A smaller batch does not help",
          config::place_of(loaded.given, "model"), footprint.parameters, text(footprint.model.peak),
          model_text(footprint), text(limit),
          footprint.model.peak - optimizer <= limit ? ", or an optimizer with less state" : "",
          footprint.largest, text(footprint.largest_bytes));
  require(footprint.model.live + footprint.save <= limit, "",
          "{}: model: its {} parameters need {} ({}) and {} more during a checkpoint save, this machine has "
          "{}: use fewer units or layers",
          config::place_of(loaded.given, "model"), footprint.parameters, text(footprint.model.live),
          model_text(footprint), text(footprint.save), text(limit));
  if (footprint.step.peak <= limit) return;
  const std::size_t samples = footprint.step.peak - footprint.model.live;
  const std::size_t room = limit - std::min(limit, footprint.model.live);
  const auto fitting = static_cast<Index>(static_cast<double>(footprint.batch) * static_cast<double>(room) /
                                          static_cast<double>(samples));
  const auto fits = std::ranges::find_if(footprint.recompute,
                                         [&](const MemoryFigures& step) { return step.peak <= limit; });
  const std::string recompute =
      fits == footprint.recompute.end()
          ? ""
          : fmt::format("set model.recompute to {}, which needs {}; otherwise ",
                        nn::kRecomputeNames[static_cast<std::size_t>(fits - footprint.recompute.begin())],
                        text(fits->peak));
  throw UserError(
      "", fmt::format("{}: data.batch_size: a step on {} samples needs {} ({} of it for the model), this "
                      "machine has {}: {}{}",
                      config::place_of(loaded.given, "data.batch_size"), footprint.batch,
                      text(footprint.step.peak), text(footprint.model.live), text(limit), recompute,
                      fitting > 0 ? fmt::format("about {} samples fit; accumulate gradients over several "
                                                "micro-batches for larger batches (accumulate)",
                                                fitting)
                                  : "not even one sample fits; use smaller images or fewer channels"));
}

}  // namespace tandem::train
