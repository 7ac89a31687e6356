#include "train/evaluate.h"

#include <fmt/core.h>

#include "autograd/modes.h"
#include "core/guard.h"

namespace tandem::train {

std::unique_ptr<tasks::Evaluation> evaluate(tasks::Task& task, datasets::Loader& loader, bool details,
                                            const StopRequest* stop) {
  nn::Module& model = task.model();
  const NoGrad no_grad;
  const bool was_training = model.training();
  model.eval();
  auto evaluation = task.evaluation(details);
  loader.seek({});
  while (auto batch = loader.next()) {
    evaluation->add(*batch);
    if (stop && stop->asked()) {
      evaluation.reset();
      break;
    }
  }
  model.train(was_training);
  guard::check("memory");  // figures from damaged memory are none
  return evaluation;
}

std::string metrics_text(const tasks::Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics)
    text += fmt::format("{}{} {:.4f}", text.empty() ? "" : "  ", name, value);
  return text;
}

}  // namespace tandem::train
