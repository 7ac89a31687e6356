// Accumulated steps against steps of one batch with the same samples.
#include <cmath>

#include "core/tensor.h"
#include "files/safetensors.h"
#include "tests/program/support.h"

using namespace tandem::testing;
using tandem::safetensors::File;

namespace {

// The weights after some steps over 96 samples each, and their losses.
struct Trained {
  std::vector<double> weights, losses;
};

Trained train(const TemporaryDirectory& directory, const std::string& run, int batches,
              const std::string& loss) {
  const Outcome outcome = tandem_in(
      directory, {"train", "digits_mlp", "run_dir=" + run, "loss=" + loss,
                  "data.batch_size=" + std::to_string(96 / batches), "accumulate=" + std::to_string(batches),
                  R"(optimizer={"name": "sgd", "lr": 0.1, "momentum": 0.9})", "schedule=constant",
                  "log_every=1", "--limit-steps=5"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  Trained trained;
  const File file((newest_checkpoint(directory.path() / run) / "weights.safetensors").string());
  for (const auto& entry : file.entries()) {
    const auto values = file.read(entry).to_vector<double>();
    trained.weights.insert(trained.weights.end(), values.begin(), values.end());
  }
  for (const auto& event : events_of(directory / run, "step")) trained.losses.push_back(event["loss"]);
  return trained;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("batches that count by their class weights accumulate to what one batch gives", "[program]") {
  const TemporaryDirectory directory;
  const std::string weights = R"("class_weights": [9, 0.1, 1, 0.1, 3, 0.1, 0.5, 0.1, 6, 0.1])";
  const std::string exact = "{" + weights + R"(, "batch_weight": "class_weights"})";
  const Trained whole = train(directory, "whole", 1, exact);
  const Trained parts = train(directory, "parts", 8, exact);
  CHECK(largest_difference(parts.weights, whole.weights) < 1e-5);
  CHECK(largest_difference(parts.losses, whole.losses) < 1e-5);
  // The weights of the batches do matter here; and one batch does not ask for them.
  const Trained by_samples = train(directory, "by_samples", 8, "{" + weights + "}");
  CHECK(largest_difference(by_samples.weights, whole.weights) > 1e-3);
  CHECK(train(directory, "plain", 1, "{" + weights + "}").weights == whole.weights);
}

TEST_CASE("a batch whose classes weigh nothing adds nothing to its step", "[program]") {
  const TemporaryDirectory directory;
  const std::string loss =
      R"({"class_weights": [0, 0, 0, 0, 0, 0, 0, 2, 1, 0], "batch_weight": "class_weights"})";
  const Trained whole = train(directory, "whole", 1, loss);
  const Trained parts = train(directory, "parts", 48, loss);
  CHECK(largest_difference(parts.weights, whole.weights) < 1e-5);
  CHECK(largest_difference(parts.losses, whole.losses) < 1e-5);
}

TEST_CASE("batches count by class weights only where there are some", "[program]") {
  const TemporaryDirectory directory;
  const Outcome outcome =
      tandem_in(directory, {"train", "digits_mlp", R"(loss={"batch_weight": "class_weights"})"});
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, Catch::Contains("loss.batch_weight: needs loss.class_weights"));
}
