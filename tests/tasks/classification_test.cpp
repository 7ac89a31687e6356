// Metrics of a classifier, and the description of its data.
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/task.h"
#include "core/error.h"
#include "tasks/classification/scores.h"
#include "tasks/sample_data.h"
#include "tests/support/temporary_files.h"
#include "train/evaluate.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;

namespace {

datasets::Batch batch_of(const std::vector<std::int64_t>& labels) {
  const auto count = static_cast<Index>(labels.size());
  return {{{"label", Tensor::from(labels, {count})}}, count};
}

std::unique_ptr<tasks::ClassificationLoss> made(const char* name, const options::Given& given,
                                                Index classes) {
  return tasks::classification_losses().make(name, given, classes);
}

}  // namespace

TEST_CASE("evaluation weighs samples, not batches", "[task]") {
  const auto loss = made("cross_entropy", {}, 3);
  tasks::ClassificationScores scores(*loss, true);
  scores.add(Tensor::from({5, 0, 0, 0, 5, 0, 0, 0, 5}, {3, 3}), batch_of({0, 1, 2}));
  scores.add(Tensor::from({5, 0, 0}, {1, 3}), batch_of({2}));
  const tasks::Metrics metrics = scores.metrics();
  CHECK(tasks::metric(metrics, "accuracy") == 0.75);
  const double right = std::log(std::exp(5.0) + 2.0) - 5.0, wrong = std::log(std::exp(5.0) + 2.0);
  CHECK(tasks::metric(metrics, "loss") == Approx((3 * right + wrong) / 4).epsilon(1e-5));
  CHECK(scores.confusion()->counts == std::vector<std::int64_t>{1, 0, 0, 0, 1, 0, 1, 0, 1});
  CHECK(scores.confusion()->csv({"a", "b,c", "d\"e"}) ==
        "true\\predicted,a,\"b,c\",\"d\"\"e\"\na,1,0,0\n\"b,c\",0,1,0\n\"d\"\"e\",1,0,1\n");
}

TEST_CASE("the loss of an evaluation is weighted by class", "[task]") {
  const auto loss = made("cross_entropy", {{"class_weights", std::vector{1.0, 4.0}}}, 2);
  const Tensor logits = Tensor::from({2, -1, 0.5F, 1, 3, 0}, {3, 2});
  tasks::ClassificationScores whole(*loss, false), parts(*loss, false);
  whole.add(logits, batch_of({0, 1, 1}));
  parts.add(logits.rows(0, 1), batch_of({0}));
  parts.add(logits.rows(1, 2), batch_of({1, 1}));
  CHECK(tasks::metric(parts.metrics(), "loss") ==
        Approx(tasks::metric(whole.metrics(), "loss")).epsilon(1e-6));
  CHECK(tasks::metric(whole.metrics(), "loss") ==
        Approx((*loss)(logits, batch_of({0, 1, 1})).item()).epsilon(1e-6));
}

TEST_CASE("top-5, ties and scores that are no numbers", "[task]") {
  const auto loss = made("cross_entropy", {}, 7);
  tasks::ClassificationScores scores(*loss, false);
  const float nan = std::nanf("");
  scores.add(Tensor::from({7, 6, 5, 4, 3, 2, 1, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1}, {3, 7}),
             batch_of({4, 5, 0}));
  CHECK(tasks::metric(scores.metrics(), "accuracy") == Approx(1.0 / 3));
  CHECK(tasks::metric(scores.metrics(), "top5") == Approx(2.0 / 3));
  tasks::ClassificationScores broken(*loss, false);
  broken.add(Tensor::full({1, 7}, nan), batch_of({0}));
  CHECK(tasks::metric(broken.metrics(), "accuracy") == 0.0);
  CHECK(tasks::metric(broken.metrics(), "top5") == 0.0);
}

// The values are those of sklearn.metrics.precision_recall_fscore_support(truth, taken, labels=range(4)).
TEST_CASE("classes have precision, recall and F1", "[task]") {
  const auto loss = made("cross_entropy", {}, 4);
  tasks::ClassificationScores scores(*loss, false);
  const std::vector<std::int64_t> truth{0, 0, 0, 1, 1, 2, 0}, taken{0, 0, 1, 1, 2, 1, 1};
  std::vector<float> logits(7 * 4);
  for (std::size_t i = 0; i < taken.size(); ++i) logits[4 * i + static_cast<std::size_t>(taken[i])] = 1;
  scores.add(Tensor::from(logits, {7, 4}), batch_of(truth));
  const auto breakdown = scores.breakdown({"a", "b", "c"});
  CHECK(breakdown.names == std::vector<std::string>{"a", "b", "c", "3"});
  CHECK(breakdown.samples == std::vector<std::int64_t>{4, 2, 1, 0});
  const auto figure = [&](std::size_t which, const char* name) {
    CHECK(breakdown.figures.at(which).first == name);
    return breakdown.figures.at(which).second;
  };
  const auto precision = figure(0, "precision"), recall = figure(1, "recall"), f1 = figure(2, "f1");
  CHECK(precision[0] == 1.0);
  CHECK(precision[1] == 0.25);
  CHECK(precision[2] == 0.0);
  CHECK(std::isnan(precision[3]));
  CHECK(recall[0] == 0.5);
  CHECK(recall[1] == 0.5);
  CHECK(recall[2] == 0.0);
  CHECK(std::isnan(recall[3]));
  CHECK(f1[0] == Approx(2.0 / 3));
  CHECK(f1[1] == Approx(1.0 / 3));
  CHECK(f1[2] == 0.0);
  CHECK(std::isnan(f1[3]));
  const auto again = tasks::breakdown_from(tasks::to_json(breakdown));
  REQUIRE(again);
  CHECK(again->samples == breakdown.samples);

  // Scores that are no numbers find nothing.
  tasks::ClassificationScores broken(*loss, true);
  broken.add(Tensor::full({2, 4}, std::nanf("")), batch_of({0, 1}));
  CHECK(broken.breakdown({}).figures.at(1).second[0] == 0.0);
  CHECK(broken.breakdown({}).figures.at(1).second[1] == 0.0);
}

TEST_CASE("losses by name agree with their definitions", "[task]") {
  const Tensor logits = Tensor::from({2, -1, 0.5F, 1}, {2, 2});
  const auto loss = [&](const char* name, const options::Given& given = {}) {
    return (*made(name, given, 2))(logits, batch_of({0, 1})).item();
  };
  CHECK(loss("mse") == Approx((1 + 1 + 0.25 + 0) / 4));
  const double row0 = std::log1p(std::exp(-3.0)), row1 = std::log1p(std::exp(-0.5));
  CHECK(loss("cross_entropy") == Approx((row0 + row1) / 2));
  CHECK(loss("cross_entropy", {{"class_weights", std::vector<double>{1, 3}}}) ==
        Approx((row0 + 3 * row1) / 4));
  const double bce = std::log1p(std::exp(-2.0)) + std::log1p(std::exp(-1.0)) + std::log1p(std::exp(0.5)) +
                     std::log1p(std::exp(-1.0));
  CHECK(loss("bce_with_logits") == Approx(bce / 4));
  CHECK(loss("focal", {{"alpha", -1}, {"gamma", 0}}) == Approx(bce / 4));
  CHECK_THAT(user_error_of([&] {
               loss("cross_entropy", {{"class_weights", std::vector<double>{1, 2, 3}}});
             }),
             Contains("class_weights"));
  CHECK_THAT(user_error_of([&] {
               loss("cross_entropy", {{"batch_weight", "class_weights"}});
             }),
             Contains("batch_weight needs loss.class_weights"));
}

TEST_CASE("an evaluation begins with the first sample, wherever the loader was", "[task]") {
  const config::Loaded loaded = config::load("digits_mlp", {"data.test_size=21", "data.eval_batch_size=5"});
  const auto task = config::make_task(loaded, config::open_data(loaded.config, {}));
  datasets::Loader loader(task->evaluation_source("test", {}));
  task->model().eval();
  const tasks::Metrics whole = train::evaluate(*task, loader)->metrics();
  loader.next();
  CHECK(train::evaluate(*task, loader)->metrics() == whole);
  CHECK_FALSE(task->model().training());
  task->model().train();
  train::evaluate(*task, loader);
  CHECK(task->model().training());
}

TEST_CASE("a description of the data survives the way through metadata", "[task]") {
  const config::Config config;
  datasets::DatasetInfo info{
      .name = "x", .dtype = DType::u8, .sample_shape = {0, 0, 3}, .classes = 2, .class_names = {"a\"b", "ü"}};
  info.statistics = {{0.1F, 0.2F, 0.3F}, {1.0F, 2.0F, 3.0F}};
  const tasks::SampleData data(info, 64);
  const auto recalled = config::recall_data(config, tasks::Json::parse(data.description().dump()));
  const auto& back = dynamic_cast<const tasks::SampleData&>(*recalled);
  CHECK(back.info().sample_shape == info.sample_shape);
  CHECK(back.info().class_names == info.class_names);
  CHECK(back.info().statistics.mean == info.statistics.mean);
  CHECK(back.image_size() == 64);
  CHECK_FALSE(back.is_open());
  CHECK_THROWS_AS(config::recall_data(config, tasks::Json{{"name", 3}}), UserError);
  info.classes = 3;
  CHECK_THAT(user_error_of(
                 [&] { tasks::SampleData(info, 64).require_like(data.description(), "best.safetensors"); }),
             Contains("best.safetensors") && Contains("2 classes") && Contains("x has 3"));
  const auto with_names = [&](std::vector<std::string> names) {
    info.classes = static_cast<Index>(names.size());
    info.class_names = std::move(names);
    return user_error_of(
        [&] { tasks::SampleData(info, 64).require_like(data.description(), "best.safetensors"); });
  };
  CHECK(with_names({"a\"b", "ü"}).empty());
  CHECK_THAT(with_names({"a\"b", "v"}),
             Contains("best.safetensors: were trained on other classes: a\"b, ü; x has: "
                      "a\"b, v; the first that differs is number 1, \"ü\" there and "
                      "\"v\" here"));
  CHECK_THAT(with_names({"ü", "a\"b"}), Contains("these classes in another order"));
  CHECK(with_names({}).find("2 classes") != std::string::npos);
}
