#include "train/resume.h"

#include <nlohmann/json.hpp>

#include "tests/support/temporary_files.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;

TEST_CASE("keys that may change in a resumed run", "[resume]") {
  const auto json = [](const char* text) { return config::Json::parse(text); };
  const config::Json saved = json(
      R"({"epochs": 3, "optimizer": {"name": "sgd", "lr": 0.1}, "model": {"hidden": [32, 16]},
          "precision": {"level": "O0"}, "checkpoint": {"keep": 2}, "seed": 1})");
  const auto with = [&](const char* path, config::Json value) {
    config::Json changed = saved;
    changed[config::Json::json_pointer(path)] = std::move(value);
    return changed;
  };
  CHECK(train::changes_since(saved, saved).notes.empty());
  CHECK_THROWS_AS(train::changes_since(saved, with("/epochs_of_another", 5)), UserError);
  const train::ConfigChanges longer = train::changes_since(saved, with("/epochs", 5));
  CHECK(longer.notes == std::vector<std::string>{"epochs: 3 → 5"});
  CHECK_FALSE(longer.precision);
  CHECK(train::changes_since(saved, with("/checkpoint/keep", 5)).notes.size() == 1);
  CHECK(train::changes_since(saved, with("/precision/level", "O1")).precision);
  CHECK_THAT(user_error_of([&] { train::changes_since(saved, with("/optimizer/lr", 0.2)); }),
             Contains("optimizer.lr: 0.1 → 0.2") && Contains("init_from"));
  CHECK_THAT(user_error_of([&] { train::changes_since(saved, with("/model/hidden", {32})); }),
             Contains("model.hidden.1: 16 → absent"));
  CHECK_THAT(user_error_of([&] { train::changes_since(saved, with("/optimizer/momentum", 0.9)); }),
             Contains("optimizer.momentum: absent → 0.9"));
  // A key that was not there yet had its default.
  CHECK(train::changes_since(saved, with("/data/layout", "auto")).notes.empty());
  CHECK(train::changes_since(saved, with("/optimizer/lr_decay", 0.0)).notes.empty());
  CHECK_THAT(user_error_of([&] { train::changes_since(saved, with("/data/layout", "nchw")); }),
             Contains("data.layout: absent → \"nchw\""));
  CHECK_THAT(user_error_of([&] { train::changes_since(saved, with("/seed", 2)); }), Contains("seed: 1 → 2"));
}
