// A training step as the Trainer and `tandem bench` run it.
#include "autograd/modes.h"
#include "config/task.h"
#include "core/backend.h"
#include "core/guard.h"
#include "core/kernels/random.h"
#include "core/random.h"
#include "models/builder.h"
#include "models/weights.h"
#include "tests/support/temporary_files.h"
#include "train/learners.h"
#include "train/setup.h"

using namespace tandem;

namespace {

struct Setup {
  explicit Setup(const std::vector<std::string>& overrides)
      : loaded(config::load("resnet20_synthetic", overrides)) {
    task = config::make_task(loaded, config::describe_data(loaded.config));
    model = &task->model();
    learners = std::make_unique<train::Learners>(
        *task, loaded, train::step_options(loaded.config),
        [&](double lr) { return train::make_schedule(loaded.config, lr, 10, 10); });
    step = learners->front().step.get();
    const Index size = loaded.config.data.batch_size;
    const Tensor image = Tensor::empty(task->signatures().front().sample.inserted(0, size));
    backend_for({}).random().random_normal({.seed = 3}, image, 0.0, 1.0);
    std::vector<std::int64_t> labels;
    for (Index i = 0; i < size; ++i) labels.push_back(i % 10);
    batch = {{{"image", image}, {"label", Tensor::from(labels, {size})}}, size};
  }

  double run() {
    const RandomScope random(1, static_cast<std::uint32_t>(step->attempted()), 0);
    const Tensor loss = task->loss(batch);
    step->backward(loss, static_cast<double>(batch.samples));
    step->apply();
    return loss.item();
  }

  config::Loaded loaded;
  std::unique_ptr<tasks::Task> task;
  nn::Module* model = nullptr;
  std::unique_ptr<train::Learners> learners;
  optim::Step* step = nullptr;
  datasets::Batch batch;
};

}  // namespace

TEST_CASE("later steps request no memory from the system", "[step]") {
  const bool guards = guard::turn(false);  // which take room of their own
  Setup setup({"data.batch_size=16", "ema={}", "clip_norm=1"});
  setup.run();
  const std::uint64_t requests = host_allocator().figures().system_requests;
  for (int i = 0; i < 4; ++i) setup.run();
  CHECK(host_allocator().figures().system_requests == requests);
  guard::turn(guards);
}

TEST_CASE("every optimizer and schedule trains from a configuration", "[step]") {
  for (const char* optimizer : {"sgd", "adam", "adamw", "rmsprop", "adagrad", "lars", "lamb"}) {
    for (const char* schedule : {"constant", "cosine", "one_cycle"}) {
      if (std::string(schedule) != "constant" && std::string(optimizer) != "adam") continue;
      INFO(optimizer << " " << schedule);
      Setup setup({"data.batch_size=10", "model.width=4", "data.image_size=8",
                   std::string("optimizer={\"name\": \"") + optimizer + "\"}",
                   std::string("schedule.name=") + schedule});
      const double first = setup.run();
      double last = first;
      for (int i = 0; i < 15; ++i) last = setup.run();
      CHECK(last < first);
    }
  }
  for (const char* schedule : {R"({"name": "step", "every": 3, "unit": "steps"})",
                               R"({"name": "multi_step", "milestones": [0.2, 0.5]})",
                               R"({"name": "exponential", "every": 1, "warmup_steps": 2})",
                               R"({"name": "polynomial", "power": 2})"}) {
    INFO(schedule);
    const auto config = config::load("resnet20_synthetic", {std::string("schedule=") + schedule}).config;
    const optim::Schedule rate = train::make_schedule(config, optim::learning_rate(config.optimizer), 10, 10);
    CHECK(rate(9) < optim::learning_rate(config.optimizer));
    CHECK(rate.peak() == optim::learning_rate(config.optimizer));
  }
  CHECK_THAT(testing::user_error_of([] {
               train::make_schedule(config::load("resnet20_synthetic", {"schedule.warmup_steps=10"}).config,
                                    0.1, 10, 10);
             }),
             Catch::Contains("warm-up"));
}

TEST_CASE("a parameter takes the keys of every group that matches, the last one's where they meet",
          "[step]") {
  Setup setup({"data.batch_size=2", "model.width=4", "data.image_size=8",
               R"(optimizer={"name": "sgd", "lr": 0.1, "weight_decay": 0.01, "groups": [
                 {"match": "bias|bn", "weight_decay": 0},
                 {"match": "^fc", "lr_factor": 10},
                 {"match": "fc\\.bias", "lr_factor": 2}]})"});
  int seen = 0;
  for (const optim::Optimizer::Entry& entry : setup.learners->front().optimizers.front()->entries()) {
    const std::string& name = entry.parameter.name();
    INFO(name);
    const auto expect = [&](double lr_factor, double weight_decay) {
      CHECK(entry.lr_factor == lr_factor);
      CHECK(entry.weight_decay == weight_decay);
      ++seen;
    };
    if (name == "conv1.weight") expect(1.0, 0.01);
    if (name == "bn1.bias") expect(1.0, 0.0);
    if (name == "fc.weight") expect(10.0, 0.01);
    if (name == "fc.bias") expect(2.0, 0.0);
  }
  CHECK(seen == 4);
}
