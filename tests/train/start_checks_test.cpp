// Checks before the first step of a run.
#include "train/start_checks.h"

#include "core/backend.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_files.h"
#include "train/footprint.h"
#include "train/trainer.h"

using namespace tandem;
using namespace tandem::testing;
using Catch::Contains;

namespace {

// 33 rows of features in batches of 32, with batch norm behind the first layer.
const char* const kRows = R"({
  "model": {"layers": [{"type": "flatten"}, {"type": "linear", "out_features": 8}, {"type": "batch_norm"},
                       {"type": "linear", "out_features": 2}]},
  "data": {"name": "synthetic", "image_size": 4, "channels": 1, "classes": 2, "train_size": 33, "test_size": 8,
           "batch_size": 32}
})";

config::Loaded rows(const std::vector<std::string>& overrides = {}) {
  static const TemporaryDirectory directory;
  return config::load(directory.write("rows.json", kRows), overrides);
}

std::string refusal(const config::Loaded& loaded, Index parts = 1) {
  return user_error_of([&] { train::check_start(loaded, config::describe_data(loaded.config), parts); });
}

}  // namespace

TEST_CASE("a last batch of one sample and batch norm are refused at the start", "[start]") {
  CHECK_THAT(refusal(rows()),
             Contains("data.drop_last: the last batch of an epoch has 1 of the 33 samples") &&
                 Contains("data.drop_last=true") && Contains("[batch_norm"));
  CHECK(refusal(rows({"data.drop_last=true"})).empty());
  CHECK(refusal(rows({"data.train_size=34"})).empty());
  CHECK(refusal(rows({"data.batch_size=33"})).empty());
  CHECK_THAT(user_error_of([] { train::Trainer(rows(), {}); }), Contains("data.drop_last=true"));
  // In parts that have statistics of their own.
  CHECK_THAT(refusal(rows({"data.train_size=35"}), 2),
             Contains("data.drop_last: the last batch of an epoch has 3 of the 35 samples, 1 in the smallest "
                      "of its 2 parts"));
  CHECK(refusal(rows({"data.train_size=36"}), 2).empty());
  CHECK_THAT(refusal(rows({"data.train_size=32"}), 32),
             Contains("data.batch_size: a batch has 32 samples, 1") && Contains("fewer parallel.shards"));
  CHECK(refusal(rows({"data.overfit_batches=1"})).empty());
  // Without batch norm one sample is enough.
  CHECK(refusal(rows({R"(model={"layers": [{"type": "flatten"}, {"type": "linear", "out_features": 2}]})"}))
            .empty());
}

TEST_CASE("a figure that the data cannot have chooses no epoch", "[start]") {
  const std::string refused = refusal(rows({"checkpoint.best=top5", "data.train_size=32"}));
  CHECK_THAT(refused,
             Contains("command line: checkpoint.best: the test split has no top5: there are 2 classes") &&
                 Contains("it has accuracy, loss"));
  CHECK(refusal(rows({"checkpoint.best=top5", "data.train_size=32", "data.classes=6",
                      R"(model={"layers": [{"type": "flatten"}, {"type": "linear", "out_features": 6}]})"}))
            .empty());
}

TEST_CASE("looking at the start of a run takes no memory for its weights", "[start]") {
  const config::Loaded loaded = config::load("digits_mlp", {"model.hidden=[25000,25000]"});
  const tasks::DataPtr data = config::describe_data(loaded.config);
  const MemoryFigures before = host_allocator().figures();
  train::check_start(loaded, data, 1);
  CHECK(train::footprint_of(loaded, data).parameters > 600'000'000);
  CHECK(host_allocator().figures().peak_reserved - before.reserved < std::size_t{64} << 20);
}

TEST_CASE("a confusion matrix of too many classes is refused at the start", "[start]") {
  const std::vector<std::string> many{
      "data.train_size=8000", "data.classes=5000", "eval.confusion=true",
      R"(model={"layers": [{"type": "flatten"}, {"type": "linear", "out_features": 5000}]})"};
  CHECK_THAT(refusal(rows(many)),
             Contains("eval.confusion: a confusion matrix of 5000 classes is too large"));
}
