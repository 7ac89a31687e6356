#include "train/evaluate.h"

#include <fmt/core.h>

#include "autograd/modes.h"
#include "core/guard.h"

namespace tandem::train {

std::unique_ptr<tasks::Evaluation> evaluate(nn::Module& model, datasets::Loader& loader,
                                            const tasks::Task& task, bool confusion,
                                            const StopRequest* stop) {
  const NoGrad no_grad;
  const bool was_training = model.training();
  model.eval();
  auto evaluation = task.evaluation(confusion);
  loader.seek({});
  while (auto batch = loader.next()) {
    evaluation->add(model((*batch)["image"]), *batch);
    if (stop && stop->asked()) {
      evaluation.reset();
      break;
    }
  }
  model.train(was_training);
  guard::check("memory");  // figures from damaged memory are none
  return evaluation;
}

std::string metrics_text(const runs::Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics)
    text += fmt::format("{}{} {:.4f}", text.empty() ? "" : "  ", name, value);
  return text;
}

}  // namespace tandem::train
