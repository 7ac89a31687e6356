// FP32 gradients with an FP16 forward pass, in a model of each family: no loss scale, no flushed gradient.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/train/planned_families.h"
#include "train/start_checks.h"

using namespace tandem;
using namespace tandem::testing;

namespace {

constexpr const char* kWide =
    R"({"level":"O1","dtype":"fp16","scaler":"none","layers":{"":{"forward":"fp16","backward":"fp32"}}})";

constexpr const char* kScaled = R"({"level":"O1","dtype":"fp16","scaler":{"static":1024}})";
constexpr float kScale = 1024.0f;

double norm(const std::vector<float>& values) {
  double squares = 0.0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

}  // namespace

TEST_CASE("backward fp32 trains every family without a loss scale", "[layers][backward]") {
  for (const std::string& name : planned_families()) {
    INFO(name);
    const PlannedFamily family(name, kWide), scaled(name, kScaled);
    PlannedSteps steps(family), scaled_steps(scaled);
    const amp::ResolvedPrecision wide(train::precision_of(family.loaded.config), steps.task->model());
    const amp::ResolvedPrecision narrow({.level = amp::Level::O1, .dtype = DType::f16});
    const auto kept = steps.run(wide), rounded = scaled_steps.run(narrow);
    CHECK(kept.loss == rounded.loss);
    REQUIRE(kept.gradients.size() == rounded.gradients.size());
    std::vector<float> apart = kept.gradients;
    for (std::size_t i = 0; i < apart.size(); ++i) apart[i] -= rounded.gradients[i] / kScale;
    CHECK(norm(apart) > 0.0);
    CHECK(norm(apart) < 0.01 * norm(kept.gradients));
  }
}

TEST_CASE("the lint has nothing to say of any family, in FP16 and BF16", "[lint]") {
  for (const std::string& name : planned_families())
    for (const char* precision : {"amp_fp16", "amp_bf16", R"({"level":"O2","dtype":"fp16"})"}) {
      const PlannedFamily family(name, precision);
      PlannedSteps steps(family);
      const amp::ResolvedPrecision plan(train::precision_of(family.loaded.config), steps.task->model());
      const auto lines = amp::lint(steps.task->model(), plan, {[&] { return steps.forward(); }});
      for (const auto& line : lines) UNSCOPED_INFO(name << " " << precision << ": " << to_string(line));
      CHECK(lines.empty());
    }
}

TEST_CASE("the lint changes no bit of a step", "[lint]") {
  const PlannedFamily family("classification", "amp_fp16");
  PlannedSteps looked_at(family), other(family);
  const amp::ResolvedPrecision plan(train::precision_of(family.loaded.config), looked_at.task->model());
  const amp::ResolvedPrecision same(train::precision_of(family.loaded.config), other.task->model());
  amp::lint(looked_at.task->model(), plan, {[&] { return looked_at.forward(); }});
  for (std::uint32_t step = 0; step < 3; ++step) CHECK(looked_at.run(plan, step) == other.run(same, step));
}
