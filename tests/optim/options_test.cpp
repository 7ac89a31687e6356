// Groups, the lists of optimizers and schedules, properties of schedules, and their errors.
#include "optim/adam.h"
#include "optim/lars.h"
#include "optim/registry.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

using options::Given;

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
  const auto message = [&](const std::string& name, const Given& given) {
    return message_of([&] { optim::make_optimizer(name, toy->parameters(), given); });
  };
  const auto group = [](const Given& given) { return Given{{"groups", std::vector<Given>{given}}}; };
  CHECK_THAT(message("adamv", {}),
             Catch::Contains("there is no optimizer \"adamv\"") && Catch::Contains("adam"));
  CHECK_THAT(message("sgd", {{"beta1", 0.5}}),
             Catch::Contains("[sgd] beta1: unknown key") && Catch::Contains("nesterov"));
  CHECK_THAT(message("sgd", {{"momentom", 0.5}}), Catch::Contains("did you mean momentum?"));
  CHECK_THAT(message("sgd", {{"momentum", "much"}}), Catch::Contains("expected number in [0, 1)"));
  CHECK_THAT(message("sgd", {{"nesterov", true}}), Catch::Contains("[sgd] nesterov needs momentum"));
  CHECK_THAT(message("sgd", group({{"match", "(fc"}})), Catch::Contains("is not a regular expression"));
  CHECK_THAT(
      message("sgd", group({{"match", "fc_wieght"}})),
      Catch::Contains("group \"fc_wieght\" matches none of 5 parameters") && Catch::Contains("fc_weight"));
  // The same description checks what C++ has filled in.
  const auto made = [&]<class Made>(TypeTag<Made>, const auto& options) {
    return message_of([&] { Made(toy->parameters(), options); });
  };
  CHECK_THAT(made(TypeTag<optim::Sgd>{}, optim::SgdOptions{.momentum = 1.5}),
             Catch::Contains("[sgd] momentum must lie in [0, 1), is 1.5"));
  CHECK_THAT(made(TypeTag<optim::Sgd>{}, optim::SgdOptions{.nesterov = true}),
             Catch::Contains("nesterov needs momentum"));
  CHECK_THAT(made(TypeTag<optim::Adam>{}, optim::AdamOptions{.lr = -1.0}),
             Catch::Contains("[adam] lr must be at least 0, is -1"));
  CHECK_THAT(made(TypeTag<optim::Adam>{}, optim::AdamOptions{.beta2 = 1.0}),
             Catch::Contains("beta2 must lie in [0, 1), is 1"));
  CHECK_THAT(made(TypeTag<optim::Adam>{}, optim::AdamOptions{.eps = std::nan("")}), Catch::Contains("eps"));
  CHECK_THAT(
      made(TypeTag<optim::Sgd>{}, optim::SgdOptions{.groups = {{.match = "fc", .weight_decay = -1.0}}}),
      Catch::Contains("groups.0.weight_decay must be at least 0, is -1"));
  CHECK_THAT(made(TypeTag<optim::Sgd>{}, optim::SgdOptions{.groups = {{.match = "(fc"}}}),
             Catch::Contains("is not a regular expression"));
  CHECK_THAT(message_of([] { optim::Sgd({}, {}); }), Catch::Contains("got no parameters to train"));
  const Parameter twice = toy->parameters()[0];
  CHECK_THAT(message_of([&] { optim::Sgd({twice, twice}); }), Catch::Contains("is given twice"));
}

TEST_CASE("every rule has an optimizer of its name, which takes every option it describes", "[optim]") {
  const auto toy = network();
  CHECK(optim::optimizers().names() == std::vector<std::string>{"sgd", "adam", "adamw", "rmsprop", "adagrad",
                                                                "lars", "lamb", "muon", "adafactor"});
  for (const auto& entry : optim::optimizers().entries()) {
    CAPTURE(entry.name);
    CHECK_FALSE(entry.help.empty());
    Given given;
    for (const options::Key& key : entry.schema.keys) {
      if (key.name == "groups") continue;
      // Something else than the default: 0.5 is in the range of every number.
      const bool flag = key.type.kind == options::Type::Kind::boolean;
      const bool word = !key.type.choices.empty();
      given.push_back({key.name, flag   ? options::Value(true)
                                 : word ? options::Value(key.type.choices.back())
                                 : key.type.kind == options::Type::Kind::integer ? options::Value(3)
                                                                                 : options::Value(0.5)});
    }
    std::erase_if(given, [](const auto& member) { return member.name == "dampening"; });  // not with nesterov
    const auto optimizer = optim::make_optimizer(entry.name, toy->parameters(), given);
    CHECK(optimizer->name() == entry.name);
    CHECK(optimizer->lr() == 0.5);
    CHECK(optimizer->entries()[0].weight_decay == 0.5);
    CHECK_FALSE(optim::make_optimizer(entry.name, toy->parameters())->lr().has_value());
    CHECK(optim::learning_rate(options::Chosen(entry)) ==
          optim::make_optimizer(entry.name, toy->parameters())->default_lr());
  }
}

TEST_CASE("schedules by name equal schedules by function", "[optim]") {
  const auto same = [](const optim::Schedule& a, const optim::Schedule& b) {
    for (std::int64_t t = 0; t < 60; ++t) {
      CAPTURE(t);
      CHECK(a(t) == b(t));
    }
    CHECK(a.peak() == b.peak());
  };
  const auto made = [](const char* name, const Given& given, const optim::ScheduleContext& course) {
    return optim::schedules().make(name, given, course);
  };
  const optim::ScheduleContext run{.lr = 0.1, .steps = 50, .steps_per_epoch = 3};
  same(made("constant", {}, run), optim::constant(0.1));
  same(made("step", {{"every", 9}, {"unit", "steps"}, {"gamma", 0.3}}, run), optim::step(0.1, 9, 0.3));
  same(made("step", {{"every", 3.0}}, run), optim::step(0.1, 9));
  same(made("multi_step", {{"milestones", std::vector{9.0, 12.0}}, {"unit", "steps"}},
            {.lr = 0.1, .steps = 50, .warmup = {4}}),
       optim::multi_step(0.1, {9, 12}, 0.1, {4}));
  same(made("multi_step", {{"milestones", std::vector{3, 4}}}, run), optim::multi_step(0.1, {9, 12}));
  same(made("exponential", {{"every", 1}, {"gamma", 0.5}}, run), optim::exponential(0.1, 0.5, 3));
  same(made("polynomial", {{"power", 3.0}, {"end_lr", 0.01}}, run), optim::polynomial(0.1, 50, 3.0, 0.01));
  same(made("cosine", {}, {.lr = 0.1, .steps = 50, .warmup = {10, 0.5}}),
       optim::cosine(0.1, 50, 0.0, {10, 0.5}));
  same(made("one_cycle", {{"rise", 0.2}, {"linear", true}}, run),
       optim::one_cycle(0.1, 50, {.rise = 0.2, .linear = true}));
  CHECK(optim::schedules().names() == std::vector<std::string>{"constant", "step", "multi_step",
                                                               "exponential", "polynomial", "cosine",
                                                               "one_cycle", "inverse_sqrt", "late_steps"});
  // Four epochs of three steps at the full rate.
  same(made("step", {{"every", 1}, {"first", 4}, {"gamma", 0.8}}, run), optim::step(0.1, 3, 0.8, {}, 12));
  same(made("inverse_sqrt", {}, {.lr = 0.1, .steps = 50, .warmup = {4}}), optim::inverse_sqrt(0.1, {4}));
  // Of 50 steps the last 17 are divided among four drops.
  same(made("late_steps", {}, run), optim::late_steps(0.1, {.begin = 33, .every = 4}));
  same(made("late_steps", {{"begin", 0.5}, {"drops", 2}, {"every", 1}, {"gamma", 0.1}}, run),
       optim::late_steps(0.1, {.begin = 25, .every = 3, .drops = 2, .gamma = 0.1}));
  // With the warm-up of a configuration.
  optim::ScheduleOptions options;
  options.kind = options::Choice<optim::schedules>("cosine");
  options.warmup_steps = 4;
  options.warmup_epochs = 2.0;
  options.warmup_start = 0.5;
  same(optim::make_schedule(options, run), optim::cosine(0.1, 50, 0.0, {10, 0.5}));
  options.warmup_form = optim::WarmupForm::exponential;
  same(optim::make_schedule(options, run),
       optim::cosine(0.1, 50, 0.0, {10, 0.5, optim::WarmupForm::exponential}));
  options.warmup_steps = options.warmup_epochs = 0;
  same(optim::make_schedule(options, run), optim::cosine(0.1, 50));
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
  const auto message = [](const std::string& name, const Given& given, const optim::ScheduleContext& course) {
    return message_of([&] { optim::schedules().make(name, given, course); });
  };
  const optim::ScheduleContext run{.lr = 0.1, .steps = 5};
  CHECK_THAT(message("cosin", {}, run),
             Catch::Contains("there is no schedule \"cosin\"; did you mean \"cosine\"?"));
  CHECK_THAT(message("constant", {{"power", 2.0}}, run), Catch::Contains("[constant] power: unknown key"));
  CHECK_THAT(message("step", {{"unit", "weeks"}}, run), Catch::Contains("one of epochs, steps"));
  CHECK_THAT(message("multi_step", {}, run), Catch::Contains("[multi_step] milestones required"));
  CHECK_THAT(message("multi_step", {{"milestones", std::vector{3, 2}}}, run),
             Catch::Contains("milestones expected increasing values"));
  CHECK_THAT(message("cosine", {}, {.lr = 0.1, .steps = 5, .warmup = {5}}),
             Catch::Contains("leaves nothing of 5"));
  CHECK_THAT(message("cosine", {}, {.lr = -0.1, .steps = 5}), Catch::Contains("lr must be"));
  optim::ScheduleOptions options;
  options.warmup_steps = 5;
  CHECK_THAT(message_of([&] { optim::make_schedule(options, run); }),
             Catch::Contains("schedule: a warm-up of 5 steps is not shorter than the run of 5 steps"));
  CHECK_THAT(message("inverse_sqrt", {}, run),
             Catch::Contains("inverse_sqrt starts at the end of a warm-up"));
  CHECK_THAT(message("late_steps", {{"begin", 1.5}}, run), Catch::Contains("expected number in [0, 1]"));
  CHECK_THAT(message_of([] { optim::inverse_sqrt(0.1, {}); }),
             Catch::Contains("[inverse_sqrt] warmup_steps must be at least 1, is 0"));
  CHECK_THAT(message_of([] {
               optim::constant(0.1, {.steps = 5, .start = 0.0, .form = optim::WarmupForm::exponential});
             }),
             Catch::Contains("[constant] an exponential warm-up cannot start from 0"));
  CHECK_THROWS_AS(optim::late_steps(0.1, {.begin = 0}), UserError);
  CHECK_THROWS_AS(optim::late_steps(0.1, {.every = 0}), UserError);
  CHECK_THROWS_AS(optim::late_steps(0.1, {.drops = -1}), UserError);
  CHECK_THROWS_AS(optim::late_steps(0.1, {.gamma = 0.0}), UserError);
  CHECK_THROWS_AS(optim::step(0.1, 3, 0.5, {}, 0), UserError);
  CHECK_THROWS_AS(optim::multi_step(0.1, {5, 5}), UserError);
  CHECK_THROWS_AS(optim::step(0.1, 0), UserError);
  CHECK_THROWS_AS(optim::one_cycle(0.1, 10, {.rise = 1.0}), UserError);
  CHECK_THROWS_AS(optim::Schedule(0.1, {}), UserError);
}
