#include "runs/run_writer.h"

#include <fmt/core.h>

#include <iterator>
#include <span>

#include "config/load.h"
#include "core/error.h"
#include "files/json_text.h"
#include "files/write.h"
#include "runs/metrics_table.h"

namespace tandem::runs {

namespace {

// Markdown shows lines with four spaces of indentation verbatim.
std::string as_code(const std::string& text) {
  std::string code = "    ";
  for (const char c : text) {
    code += c;
    if (c == '\n') code += "    ";
  }
  return code;
}

using Histograms = std::vector<std::pair<std::string, tensorboard::Histogram>>;

}  // namespace

RunWriter::RunWriter(const RunDirectory* directory, const config::Config& config)
    : directory_(directory), config_(config) {
  if (directory) metrics_.emplace(*directory);
}

template <class Write>
void RunWriter::to_events(Write&& write) {
  try {
    write();
  } catch (const VendorError& error) {
    write_error_ = error.what();
    events_.reset();
  }
}

void RunWriter::write(const StartEvent& event) {
  if (!metrics_) return;
  record(event);
  first_step_ = event.step;
  if (!config_.tensorboard) return;
  to_events([&] {
    events_ = std::make_unique<tensorboard::EventFile>(directory_->tensorboard());
    events_->start(event.step + 1);
    events_->text(event.step, "config", as_code(files::json_text(config::resolved(config_), 2)));
  });
}

void RunWriter::write(const StepEvent& event) {
  record(event);
  if (!events_) return;
  to_events([&] {
    const std::string of = event.phase.empty() ? "" : event.phase + "/";
    events_->scalars(event.step, {{of + "loss", event.loss},
                                  {of + "lr", event.lr},
                                  {of + "loss_scale", event.loss_scale},
                                  {of + "grad_norm", event.grad_norm},
                                  {of + "items_per_s", event.items_per_s},
                                  {of + "skipped", static_cast<double>(event.skipped)}});
  });
}

void RunWriter::write(const EvalEvent& event) {
  record(event);
  if (!events_) return;
  std::vector<std::pair<std::string, double>> values;
  for (const auto& [name, value] : event.metrics) values.emplace_back(event.split + "/" + name, value);
  to_events([&] { events_->scalars(event.step, values); });
}

void RunWriter::write(const EndEvent& event) {
  if (!metrics_) return;
  // Before the end event, so that an ended run has its table.
  try {
    files::write_atomically(directory_->metrics_csv(), csv_of(read_run(directory_->path().string())));
  } catch (const Error& error) {  // UserError if metrics.jsonl is missing
    write_error_ = error.what();
  }
  record(event);
}

void RunWriter::write_picture(const PictureEvent& event, const std::string& png) {
  record(event);
  if (events_) to_events([&] { events_->picture(event.step, event.name, png); });
}

void RunWriter::write_tensors(const std::vector<optim::Step*>& steps, std::int64_t iteration,
                              std::int64_t epoch) {
  if (!metrics_) return;
  const bool wanted = events_ && config_.tensorboard_histograms;
  Histograms weights, gradients;
  GradientsEvent found{iteration, epoch, 1.0, {}};
  bool any = false;
  for (optim::Step* const step : steps) {
    const optim::StepReport last = step->synchronize();
    const auto parts = [&](const Tensor& buffer, const auto& use) {
      const auto values = buffer.to_vector<float>();
      for (const optim::FlatBuffers::Slot& slot : step->buffers().slots())
        use(slot.parameter.name(), std::span(values).subspan(static_cast<std::size_t>(slot.first),
                                                             static_cast<std::size_t>(slot.count)));
    };
    if (wanted)
      parts(step->buffers().masters(), [&](const std::string& name, std::span<const float> values) {
        weights.emplace_back("weights/" + name, tensorboard::histogram_of(values));
      });
    if (last.attempted <= first_step_ || last.skip) continue;
    any = true;
    found.loss_scale = last.loss_scale;
    const double unscale = 1.0 / last.loss_scale;
    parts(step->buffers().gradients(), [&](const std::string& name, std::span<const float> values) {
      for (const float value : values) found.weights.add(static_cast<float>(value * unscale));
      if (wanted) gradients.emplace_back("gradients/" + name, tensorboard::histogram_of(values, unscale));
    });
  }
  if (any) record(found);
  weights.insert(weights.end(), std::move_iterator(gradients.begin()), std::move_iterator(gradients.end()));
  if (wanted) to_events([&] { events_->histograms(iteration, weights); });
}

}  // namespace tandem::runs
