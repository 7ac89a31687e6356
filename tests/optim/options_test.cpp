// Groups, the lists of optimizers and schedules, properties of schedules, and what their errors say.
#include <set>

#include "optim/lars.h"
#include "optim/registry.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

namespace tandem::test {

namespace {
std::shared_ptr<Toy> network() {
  auto toy = std::make_shared<Toy>();
  for (const char* name : {"conv1_weight", "bn1_weight", "bn1_bias", "fc_weight", "fc_bias"})
    toy->add(name, {2, 2}, [](Index) { return 1.0; });
  return toy;
}
}  // namespace

TEST_CASE("groups add up, and the later one counts", "[optim]") {
  const auto toy = network();
  const optim::Sgd sgd(toy->parameters(), {.weight_decay = 0.1,
                                           .groups = {{.match = "bias|bn", .weight_decay = 0.0},
                                                      {.match = "^fc", .lr_factor = 3.0},
                                                      {.match = "^fc", .lr_factor = 10.0},
                                                      {.match = "^bn1_weight$", .weight_decay = 0.3}}});
  const auto entries = sgd.entries();
  REQUIRE(entries.size() == 5);
  CHECK(entries[0].weight_decay == 0.1);
  CHECK(entries[0].lr_factor == 1.0);
  CHECK(entries[1].weight_decay == 0.3);
  CHECK(entries[2].weight_decay == 0.0);
  CHECK(entries[3].weight_decay == 0.1);
  CHECK(entries[3].lr_factor == 10.0);
  CHECK(entries[4].weight_decay == 0.0);
  CHECK(entries[4].lr_factor == 10.0);
}

TEST_CASE("vectors are adapted only when asked for", "[optim]") {
  const auto toy = weight_and_bias();
  CHECK(optim::Lars(toy->parameters()).entries()[0].adapt);
  CHECK_FALSE(optim::Lars(toy->parameters()).entries()[1].adapt);
  CHECK(optim::Lars(toy->parameters(), {.adapt_vectors = true}).entries()[1].adapt);
  CHECK(optim::Lars(toy->parameters(), {.groups = {{.match = "bias", .adapt = true}}}).entries()[1].adapt);
  CHECK_FALSE(
      optim::Lars(toy->parameters(), {.groups = {{.match = "weight", .adapt = false}}}).entries()[0].adapt);
}

TEST_CASE("mistakes in optimizer options are explained", "[optim]") {
  const auto toy = network();
  const auto message = [&](const std::string& name, const optim::OptimizerOptions& options) {
    return message_of([&] { optim::make_optimizer(name, toy->parameters(), options); });
  };
  CHECK_THAT(message("adamv", {}),
             Catch::Contains("there is no optimizer \"adamv\"") && Catch::Contains("adam"));
  CHECK_THAT(message("sgd", {.beta1 = 0.5}),
             Catch::Contains("[sgd] there is no option beta1") && Catch::Contains("nesterov"));
  CHECK_THAT(message("sgd", {.momentum = 1.5}), Catch::Contains("[sgd] momentum must lie in [0, 1), is 1.5"));
  CHECK_THAT(message("sgd", {.nesterov = true}), Catch::Contains("nesterov needs momentum"));
  CHECK_THAT(message("adam", {.lr = -1.0}), Catch::Contains("[adam] lr must be at least 0, is -1"));
  CHECK_THAT(message("adam", {.beta2 = 1.0}), Catch::Contains("beta2"));
  CHECK_THAT(message("adam", {.eps = std::nan("")}), Catch::Contains("eps"));
  CHECK_THAT(
      message("sgd", {.groups = {{.match = "fc_wieght"}}}),
      Catch::Contains("group \"fc_wieght\" matches none of 5 parameters") && Catch::Contains("fc_weight"));
  CHECK_THAT(message("sgd", {.groups = {{.match = "(fc"}}}), Catch::Contains("is no regular expression"));
  CHECK_THAT(message("sgd", {.groups = {{.match = "fc", .weight_decay = -1.0}}}),
             Catch::Contains("weight_decay"));
  CHECK_THAT(message_of([] { optim::Sgd({}, {}); }), Catch::Contains("there are no parameters"));
  const Parameter twice = toy->parameters()[0];
  CHECK_THAT(message_of([&] { optim::Sgd({twice, twice}); }), Catch::Contains("is given twice"));
}

TEST_CASE("every listed optimizer is made and takes every option it lists", "[optim]") {
  const auto toy = network();
  std::set<std::string> names;
  for (const optim::OptimizerInfo& info : optim::optimizers()) {
    CAPTURE(info.name);
    names.insert(info.name);
    CHECK_FALSE(info.summary.empty());
    optim::OptimizerOptions options{.lr = 0.1, .weight_decay = 0.1};
    for (const std::string& option : info.options) {
      if (option == "momentum") options.momentum = 0.5;
      if (option == "dampening") options.dampening = 0.0;
      if (option == "nesterov") options.nesterov = true;
      if (option == "beta1") options.beta1 = 0.5;
      if (option == "beta2") options.beta2 = 0.5;
      if (option == "eps") options.eps = 0.1;
      if (option == "amsgrad") options.amsgrad = true;
      if (option == "alpha") options.alpha = 0.5;
      if (option == "centered") options.centered = true;
      if (option == "lr_decay") options.lr_decay = 0.1;
      if (option == "initial_accumulator") options.initial_accumulator = 0.1;
      if (option == "trust_coefficient") options.trust_coefficient = 0.1;
      if (option == "adapt_vectors") options.adapt_vectors = true;
    }
    const auto optimizer = optim::make_optimizer(info.name, toy->parameters(), options);
    CHECK(optimizer->name() == info.name);
    CHECK(optimizer->lr() == 0.1);
  }
  CHECK(names == std::set<std::string>{"sgd", "adam", "adamw", "rmsprop", "adagrad", "lars", "lamb"});
}

TEST_CASE("schedules by name equal schedules by function", "[optim]") {
  const auto same = [](const optim::Schedule& a, const optim::Schedule& b) {
    for (std::int64_t t = 0; t < 60; ++t) {
      CAPTURE(t);
      CHECK(a(t) == b(t));
    }
    CHECK(a.peak() == b.peak());
  };
  same(optim::make_schedule("constant", {.lr = 0.1, .steps = 50}), optim::constant(0.1));
  same(optim::make_schedule("step", {.lr = 0.1, .every = 9, .gamma = 0.3}), optim::step(0.1, 9, 0.3));
  same(optim::make_schedule("multi_step",
                            {.lr = 0.1, .warmup_steps = 4, .milestones = std::vector<std::int64_t>{9, 12}}),
       optim::multi_step(0.1, {9, 12}, 0.1, {4}));
  same(optim::make_schedule("exponential", {.lr = 0.1, .every = 3, .gamma = 0.5}),
       optim::exponential(0.1, 0.5, 3));
  same(optim::make_schedule("polynomial", {.lr = 0.1, .steps = 50, .power = 3.0, .end_lr = 0.01}),
       optim::polynomial(0.1, 50, 3.0, 0.01));
  same(optim::make_schedule("cosine", {.lr = 0.1, .steps = 50, .warmup_steps = 10, .warmup_start = 0.5}),
       optim::cosine(0.1, 50, 0.0, {10, 0.5}));
  same(optim::make_schedule("one_cycle", {.lr = 0.1, .steps = 50, .rise = 0.2, .linear = true}),
       optim::one_cycle(0.1, 50, {.rise = 0.2, .linear = true}));
  std::set<std::string> names;
  for (const optim::ScheduleInfo& info : optim::schedules()) names.insert(info.name);
  CHECK(names == std::set<std::string>{"constant", "step", "multi_step", "exponential", "polynomial",
                                       "cosine", "one_cycle"});
}

TEST_CASE("properties of schedules", "[optim]") {
  const optim::Schedule cosine = optim::cosine(0.1, 100, 0.001, {.steps = 10});
  CHECK(cosine(0) == Approx(0.1 / 11.0));  // not zero
  for (std::int64_t t = 0; t < 10; ++t) CHECK(cosine(t + 1) - cosine(t) == Approx(0.1 / 11.0));
  CHECK(cosine(10) == 0.1);
  for (std::int64_t t = 10; t < 100; ++t) CHECK(cosine(t + 1) < cosine(t));
  CHECK(cosine(100) == Approx(0.001));
  CHECK(cosine(1000) == cosine(100));  // stays beyond the end
  CHECK(optim::polynomial(0.1, 7)(70) == 0.0);
  for (const std::int64_t steps : {1, 2, 3, 4, 1000}) {
    for (const bool three : {false, true}) {
      const optim::Schedule cycle = optim::one_cycle(0.1, steps, {.three_phase = three});
      for (std::int64_t t = 0; t < 2 * steps; ++t) {
        CHECK(std::isfinite(cycle(t)));
        CHECK(cycle(t) <= 0.1 * (1 + 1e-12));
        CHECK(cycle(t) >= 0.0);
      }
    }
  }
}

TEST_CASE("mistakes in schedules are explained", "[optim]") {
  const auto message = [](const std::string& name, const optim::ScheduleOptions& options) {
    return message_of([&] { optim::make_schedule(name, options); });
  };
  CHECK_THAT(message("cosin", {}),
             Catch::Contains("there is no schedule \"cosin\"; did you mean \"cosine\"?"));
  CHECK_THAT(message("cosine", {.steps = 5}), Catch::Contains("[cosine] lr is missing"));
  CHECK_THAT(message("cosine", {.lr = 0.1}), Catch::Contains("[cosine] steps is missing"));
  CHECK_THAT(message("step", {.lr = 0.1}), Catch::Contains("[step] every is missing"));
  CHECK_THAT(message("constant", {.lr = 0.1, .power = 2.0}),
             Catch::Contains("[constant] this schedule takes no power"));
  CHECK_THAT(message("cosine", {.lr = 0.1, .steps = 5, .warmup_steps = 5}),
             Catch::Contains("leaves nothing of 5"));
  CHECK_THAT(message("cosine", {.lr = -0.1, .steps = 5}), Catch::Contains("lr must be"));
  CHECK_THROWS_AS(optim::multi_step(0.1, {5, 5}), UserError);
  CHECK_THROWS_AS(optim::step(0.1, 0), UserError);
  CHECK_THROWS_AS(optim::one_cycle(0.1, 10, {.rise = 1.0}), UserError);
  CHECK_THROWS_AS(optim::Schedule(0.1, {}), UserError);
}

}  // namespace tandem::test
