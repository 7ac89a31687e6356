// Weights by the names of a run and by paths, and the descriptions of their data.
#include "runs/weights.h"

#include <fstream>

#include "models/weights.h"
#include "nn/layers/linear.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "runs/checkpoints.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_files.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;

namespace {

// A run in the working directory, which is a folder of the test's as long as this lives.
class RunHere {
 public:
  RunHere() : before_(std::filesystem::current_path()) { std::filesystem::current_path(directory_.path()); }
  ~RunHere() { std::filesystem::current_path(before_); }

  // Checkpoints of that step, which is the best.
  void save(const runs::RunDirectory& run, std::int64_t step) {
    runs::Checkpoints checkpoints(run, 5, {{"name", "data of " + run.path().string()}},
                                  config::Json::object());
    checkpoints.take_weights(model_, 1, step);
    checkpoints.save(step, step_.state(), {}, true);
    checkpoints.finish();
  }
  void write(const std::string& name, const std::string& text) const { directory_.write(name, text); }
  nn::Module& model() { return model_; }

 private:
  testing::TemporaryDirectory directory_;
  std::filesystem::path before_;
  nn::Linear model_{3, 2};
  optim::Sgd sgd_{model_.parameters(), {.lr = 0.1}};
  optim::Step step_{model_, {&sgd_}};
};

}  // namespace

TEST_CASE("best, last and step-N are a run's own, whatever files stand in the working directory",
          "[checkpoint]") {
  RunHere here;
  const auto run = runs::RunDirectory::create("run", "run", "{}");
  for (const char* name : {"best", "last", "step-0", "step-7", "other"}) here.write(name, "a file");
  CHECK_THROWS_WITH(runs::weights_path(run, "best"),
                    Contains("has no weights \"best\"") && Contains("as ./best is one"));
  CHECK_THROWS_WITH(runs::weights_path(run, "last"), Contains("has no weights \"last\""));
  here.save(run, 0);
  for (const char* name : {"best", "last", "step-0"})
    CHECK(runs::weights_path(run, name) == "run/checkpoints/step-0/weights.safetensors");
  CHECK_THROWS_WITH(runs::weights_path(run, "step-7"), Contains("has no weights \"step-7\""));
  for (const char* name : {"./best", "other"}) CHECK(runs::weights_path(run, name) == name);
  CHECK_THROWS_WITH(runs::weights_path(run, "nothing"), Contains("has no weights \"nothing\""));
}

TEST_CASE("a path means a file, the folder of a checkpoint, a name of checkpoints, or a run",
          "[checkpoint]") {
  RunHere here;
  const auto run = runs::RunDirectory::create("run", "run", "{}");
  CHECK_THAT(user_error_of([] { runs::weights_at("run"); }), Contains("run: has no weights \"best\""));
  here.save(run, 3);
  here.save(run, 7);
  const std::string file = "run/checkpoints/step-7/weights.safetensors";
  for (const char* path : {"run", "run/", "run/checkpoints/step-7", "run/checkpoints/step-7/",
                           "run/checkpoints/best", "run/checkpoints/latest"})
    CHECK(runs::weights_at(path) == file);
  CHECK(runs::weights_at(file) == file);
  CHECK(runs::weights_at("run/checkpoints/step-3") == "run/checkpoints/step-3/weights.safetensors");
  CHECK_FALSE(runs::weights_at("run/checkpoints/step-5"));
  for (const char* path : {"run/checkpoints", "."})
    CHECK_THAT(user_error_of([&] { runs::weights_at(path); }), Contains("neither a run nor a checkpoint"));
  std::ofstream("run/checkpoints/step-3/weights.safetensors", std::ios::app) << "more";
  CHECK_THAT(user_error_of([] { runs::weights_at("run/checkpoints/step-3"); }), Contains("is damaged"));
}

TEST_CASE("weights that no run saved are of the data of the run's newest whole checkpoint", "[checkpoint]") {
  RunHere here;
  const auto run = runs::RunDirectory::create("run", "run", "{}"),
             other = runs::RunDirectory::create("other", "other", "{}");
  models::save_weights(here.model(), "plain.safetensors");
  CHECK(runs::weights_of(run, "plain.safetensors").data.is_null());
  here.save(run, 3);
  here.save(other, 3);
  CHECK(runs::weights_of(run, "best").data["name"] == "data of run");
  CHECK(runs::weights_of(run, "plain.safetensors").data["name"] == "data of run");
  CHECK(runs::weights_of(run, "other").data["name"] == "data of other");
  CHECK(runs::weights_in("plain.safetensors").data.is_null());
  std::ofstream("run/checkpoints/step-3/weights.safetensors", std::ios::app) << "more";
  CHECK(runs::weights_of(run, "plain.safetensors").data.is_null());
}
