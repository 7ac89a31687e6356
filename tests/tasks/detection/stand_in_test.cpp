// Substitutes of unreadable images: an evaluation counts each once.
#include <nlohmann/json.hpp>

#include "data/loader.h"
#include "tests/tasks/trial.h"

using namespace tandem;

namespace {

class Trial : public testing::TaskTrial {
 public:
  Trial() {
    make({{"task", "detection"},
          {"model", {{"name", "ssd_small"}, {"width", 4}}},
          {"data",
           {{"name", "scenes"},
            {"items", "digits"},
            {"scene_size", 64},
            {"most_items", 2},
            {"train_size", 4},
            {"test_size", 6},
            {"eval_batch_size", 3}}},
          {"postprocess", {{"score", 0.01}}},
          {"optimizer", {{"name", "sgd"}, {"lr", 0.1}}}},
         {});
  }
};

}  // namespace

TEST_CASE("an image that comes twice counts once, but in the loss", "[tasks][detection]") {
  Trial trial;
  trial.task().model().eval();
  datasets::Loader loader(trial.task().evaluation_source("test", {}));
  const datasets::Batch first = *loader.next(), second = *loader.next();
  const auto once = trial.task().evaluation(true), twice = trial.task().evaluation(true);
  for (const datasets::Batch* batch : {&first, &second}) once->add(*batch);
  for (const datasets::Batch* batch : {&first, &second, &first, &second}) twice->add(*batch);
  const tasks::Metrics expected = once->metrics(), found = twice->metrics();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(found[i].first);
    CHECK(found[i].first == expected[i].first);
    CHECK(found[i].second == Approx(expected[i].second).epsilon(1e-12));
  }
  const auto results = [](const tasks::Evaluation& evaluation) {
    for (const tasks::Artifact& artifact : evaluation.artifacts())
      if (artifact.file == "detections.json") return artifact.contents;
    return std::string();
  };
  CHECK(results(*once).size() > 100);
  CHECK(results(*twice) == results(*once));
  // The loss is of all that was given.
  const auto more = trial.task().evaluation(false), alone = trial.task().evaluation(false);
  for (const datasets::Batch* batch : {&first, &first, &second}) more->add(*batch);
  alone->add(first);
  const double all = tasks::metric(expected, "loss"), of_first = tasks::metric(alone->metrics(), "loss");
  CHECK(tasks::metric(more->metrics(), "loss") == Approx((2 * all + of_first) / 3));
}
