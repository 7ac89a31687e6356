// Language models without a full softmax: losses, metrics, and errors.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "data/loader.h"
#include "models/language_model.h"
#include "nn/device.h"
#include "tasks/language/evaluation.h"
#include "tasks/language/task.h"
#include "tests/support/tensors.h"
#include "tests/tasks/trial.h"
#include "train/footprint.h"

using namespace tandem;
using Catch::Contains;

namespace {

constexpr const char* kAdaptive = R"(model.softmax={"name": "adaptive", "cutoffs": [5, 11], "div_value": 2})";
constexpr const char* kSampled = R"(model.softmax={"name": "sampled", "samples": 8})";

class Trial : public testing::TaskTrial {
 public:
  explicit Trial(const std::vector<std::string>& overrides) {
    std::string text;
    RandomStream random({.seed = 4, .purpose = RandomPurpose::synthetic_data});
    for (int i = 0; i < 2000; ++i)
      text += fmt::format("w{}{}", random.below(1 + random.below(20)), i % 9 == 8 ? "\n" : " ");
    make({{"task", "language"},
          {"model",
           {{"name", "language_model"}, {"embedding", 8}, {"units", 8}, {"dropout", 0.0}, {"init", 0.3}}},
          {"data", {{"name", "text"}, {"train", write("text.txt", text)}, {"batch_size", 3}, {"steps", 5}}},
          {"optimizer", {{"name", "sgd"}, {"lr", 1.0}}}},
         overrides);
  }

  models::LanguageModel& model() { return model_as<models::LanguageModel>(); }
};

// Loss of a few steps of gradient descent on the first batch.
std::vector<double> descend(Trial& trial, int steps) {
  datasets::Loader loader(trial.task().training_source({}), {});
  const auto batch = loader.next();
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const Tensor loss = trial.task().loss(*batch);
    CHECK(loss.dtype() == DType::f32);
    losses.push_back(loss.item());
    backward(loss);
    for (const Parameter& parameter : trial.model().parameters()) {
      float* const value = parameter.value().data<float>();
      const std::vector<float> gradient = parameter.gradient().to_vector<float>();
      for (std::size_t i = 0; i < gradient.size(); ++i) value[i] -= gradient[i];
      parameter.value().storage()->bump_version();
    }
    trial.model().clear_gradients();
  }
  return losses;
}

}  // namespace

TEST_CASE("a language model learns with every softmax, twice the same", "[tasks][language][vocabulary]") {
  for (const char* softmax : {"model.softmax=full", kAdaptive, kSampled}) {
    INFO(softmax);
    Trial trial({softmax}), again({softmax});
    const std::vector<double> losses = descend(trial, 12);
    CHECK(losses.back() < 0.95 * losses.front());
    CHECK(descend(again, 12) == losses);
  }
}

TEST_CASE("figures of every softmax are those of the scores of all words", "[tasks][language][vocabulary]") {
  for (const char* softmax : {kAdaptive, kSampled}) {
    INFO(softmax);
    Trial trial({softmax});
    descend(trial, 3);
    trial.model().eval();
    const NoGrad no_grad;
    const datasets::Batch batch = trial.task().synthetic_batch(3, 1, {});
    tasks::LanguageEvaluation evaluation(trial.model());
    evaluation.add(batch);
    const Tensor scores = trial.model().forward(batch["token"]);
    REQUIRE(scores.size(2) == trial.model().options().vocabulary);
    const auto words = static_cast<std::size_t>(scores.size(2));
    const std::vector<double> score = scores.to_vector<double>();
    const std::vector<std::int64_t> target = batch["target"].to_vector<std::int64_t>();
    double nll = 0.0, right = 0.0;
    for (std::size_t i = 0; i < target.size(); ++i) {
      const double* const row = score.data() + i * words;
      double sum = 0.0;
      for (std::size_t w = 0; w < words; ++w) sum += std::exp(row[w]);
      nll += std::log(sum) - row[target[i]];
      right += std::max_element(row, row + words) - row == target[i] ? 1.0 : 0.0;
    }
    const auto count = static_cast<double>(target.size());
    CHECK(tasks::metric(evaluation.metrics(), "loss") == Approx(nll / count).epsilon(1e-5));
    CHECK(tasks::metric(evaluation.metrics(), "accuracy") == Approx(right / count));
  }
}

TEST_CASE("batches of every softmax have the fields that training has, on every device",
          "[tasks][language][vocabulary]") {
  for (const char* softmax : {"model.softmax=full", kAdaptive, kSampled}) {
    INFO(softmax);
    Trial trial({softmax});
    datasets::Loader loader(trial.task().training_source({}), {});
    const auto batch = loader.next();
    for (const Device device : {Device{}, kShapes}) {
      const datasets::Batch made = trial.task().synthetic_batch(3, 1, device);
      for (const datasets::Field& field : batch->fields()) {
        if (field.name == "length") continue;
        CHECK(made[field.name].shape() == field.value.shape());
        CHECK(made[field.name].dtype() == field.value.dtype());
      }
    }
    CHECK(train::footprint_of(trial.loaded(), trial.data()).step.peak > 0);
    datasets::Loader evaluated(trial.task().evaluation_source("test", {}), {});
    CHECK_FALSE(evaluated.next()->find("candidate").defined());
  }
}

TEST_CASE("softmaxes that do not fit a language model are refused", "[tasks][language][vocabulary]") {
  const auto refusal = [](std::vector<std::string> overrides) {
    return testing::user_error_of([&] { Trial trial(overrides); });
  };
  const auto adaptive = [](const char* cutoffs) {
    return fmt::format(R"(model.softmax={{"name": "adaptive", "cutoffs": {}}})", cutoffs);
  };
  CHECK_THAT(refusal({adaptive("[11, 5]")}),
             Contains("model.softmax.cutoffs") && Contains("cutoffs must increase, 5 comes after 11"));
  CHECK_THAT(refusal({adaptive("[5, 500]")}), Contains("cutoff 500 lies outside of [1, "));
  CHECK_THAT(refusal({adaptive("[]")}), Contains("there are no cutoffs"));
  CHECK_THAT(refusal({R"(model.softmax="adaptive")"}), Contains("cutoffs"));
  CHECK_THAT(refusal({kAdaptive, "model.tied=true"}),
             Contains("model.tied") && Contains("no table of all words to share"));
  CHECK_THAT(refusal({R"(model.softmax={"name": "sampled", "samples": 400})"}),
             Contains("model.softmax.samples") && Contains("400 samples of "));
  CHECK_THAT(refusal({R"(model.softmax={"name": "sampled", "samples": 0})"}), Contains("samples"));
  CHECK_THAT(refusal({R"(model.softmax={"name": "sampled", "samples": 4, "cutoffs": [3]})"}),
             Contains("cutoffs"));
  for (const char* softmax : {kAdaptive, kSampled})
    CHECK_THAT(refusal({softmax, "loss.label_smoothing=0.1"}),
               Contains("loss.label_smoothing") && Contains("as in the full softmax"));
  CHECK_NOTHROW(Trial({kSampled, "model.tied=true"}));
}
