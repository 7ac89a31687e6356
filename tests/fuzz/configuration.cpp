#include "tests/fuzz/configuration.h"

#include "config/reader.h"
#include "config/task.h"
#include "tasks/sample_data.h"
#include "tests/fuzz/target.h"
#include "train/setup.h"

namespace tandem::fuzz {

void build(const config::Loaded& loaded) {
  const config::Config& config = loaded.config;
  const datasets::DatasetInfo info{.name = "fuzz",
                                   .dtype = DType::u8,
                                   .sample_shape = {16, 16, 1},
                                   .classes = 10,
                                   .class_names = {},
                                   .statistics = {{0.5F}, {0.25F}}};
  const tasks::Json description = tasks::SampleData(info, 0).description();
  const auto task = config::make_task(loaded, config::recall_data(config, description));
  nn::Module& model = task->model();
  const auto precision = train::resolve_precision(loaded, model);
  train::Learners(*task, loaded, train::step_options(config),
                  [&](double lr) { return train::make_schedule(config, lr, 1000, 1000 * config.epochs); });
}

void check_round_trip(const config::Loaded& loaded) {
  const config::Json resolved = config::resolved(loaded.config);
  const std::string text = resolved.dump(1);
  const config::Loaded again = config::load(file_of(std::as_bytes(std::span(text))));
  expect(config::resolved(again.config) == resolved, "a resolved configuration resolves to another one");
}

}  // namespace tandem::fuzz
