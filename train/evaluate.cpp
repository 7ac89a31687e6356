#include "train/evaluate.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "autograd/modes.h"
#include "core/guard.h"
#include "core/units.h"
#include "data/strided_source.h"
#include "tasks/record.h"

namespace tandem::train {

namespace {

// Scope in which the model is in evaluation mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Module& model) : model_(model), was_training_(model.training()) {
    model_.eval();
  }
  ~EvaluationMode() { model_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  const NoGrad no_grad_;
  nn::Module& model_;
  const bool was_training_;
};

tasks::Record to_record(const tasks::Metrics& metrics) {
  tasks::RecordWriter writer;
  writer.put(metrics.size());
  for (const auto& [name, value] : metrics) writer.put_text(name).put(value);
  return std::move(writer).record();
}

tasks::Metrics metrics_in(std::span<const std::byte> record) {
  tasks::RecordReader reader(record);
  tasks::Metrics metrics;
  for (auto left = reader.take<std::size_t>(); left > 0; --left) {
    std::string name = reader.take_text();
    const auto value = reader.take<double>();
    metrics.emplace_back(std::move(name), value);
  }
  reader.end();
  return metrics;
}

}  // namespace

std::unique_ptr<tasks::Evaluation> evaluate(tasks::Task& task, datasets::Loader& loader, bool details) {
  const EvaluationMode mode(task.model());
  auto evaluation = task.evaluation(details);
  loader.seek({});
  while (const auto batch = loader.next()) evaluation->add(*batch);
  guard::check("memory");  // damaged memory makes the metrics invalid
  return evaluation;
}

DistributedEvaluation::DistributedEvaluation(tasks::Task& task, std::string split, Device device,
                                             ProcessGroup& ranks)
    : task_(task), split_(std::move(split)), ranks_(ranks) {
  datasets::SourcePtr source = task.evaluation_source(split_, device);
  batches_ = source->batches(0);
  if (ranks.several() && !task.evaluation()->carries()) {
    all_ = false;
    source = std::make_shared<datasets::StridedSource>(std::move(source), ranks.rank(), ranks.size());
  }
  if (source->batches(0) > 0 || all_) loader_ = std::make_unique<datasets::Loader>(std::move(source));
}

std::optional<Evaluated> DistributedEvaluation::run(bool details, const StopRequest& stop) {
  const EvaluationMode mode(task_.model());
  auto evaluation = task_.evaluation(details);
  if (loader_) loader_->seek({});
  for (Index number = 0; number < batches_; number += ranks_.size()) {
    if (ranks_.any(stop.asked())) return std::nullopt;
    tasks::Record own;
    ranks_.together([&] {
      for (int rank = 0; rank < ranks_.size() && number + rank < batches_; ++rank) {
        if (rank == ranks_.rank()) {
          own = evaluation->forward(loader_->next().value());
        } else if (all_) {
          evaluation->skip(loader_->next().value());
        }
      }
    });
    const auto records = ranks_.communicator().gather_bytes(own, ranks_.deadline_s());
    for (std::size_t rank = 0; rank < records.size(); ++rank)
      if (number + static_cast<Index>(rank) < batches_) evaluation->accumulate(records[rank]);
  }
  Evaluated evaluated;
  ranks_.together([&] {
    guard::check("memory");  // damaged memory makes the metrics invalid
    if (!ranks_.first()) return;
    evaluated.metrics = evaluation->metrics();
    evaluated.evaluation = std::move(evaluation);
  });
  if (ranks_.several())
    evaluated.metrics =
        metrics_in(ranks_.from_first(ranks_.first() ? to_record(evaluated.metrics) : tasks::Record()));
  return evaluated;
}

std::optional<double> figure(const tasks::Metrics& metrics, std::string_view name) {
  const auto found = std::ranges::find(metrics, name, &tasks::Metrics::value_type::first);
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
}

std::string metrics_text(const tasks::Metrics& metrics, std::string_view wanted) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{}{} {}", text.empty() ? "" : "  ", name, value);
  };
  for (const auto& [name, value] : metrics) add(name, decimal_text(value, 4));
  if (!wanted.empty() && !figure(metrics, wanted)) add(wanted, "–");
  return text;
}

}  // namespace tandem::train
