// The op that causes a bad step, and the headroom of gradients before overflow.
#include "studies/plan/blame.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "autograd/observers.h"
#include "core/convert.h"
#include "nn/module.h"
#include "studies/inspect/headroom.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_files.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;

namespace {

config::Loaded tiny(const std::string& precision) {
  return config::load("resnet20_synthetic", {"data.batch_size=8", "model.width=4", "data.image_size=8",
                                             "data.train_size=64", "precision=" + precision});
}

// Without kinks and statistics of a few samples, over which errors do not add up.
config::Loaded smooth(const std::string& precision) {
  return config::load("digits_mlp", {"model.activation=tanh", "precision=" + precision});
}

// Rounds what an op of a layer writes in 16 bits to so many significant bits.
class Coarse final : public OpObserver, public nn::ModuleObserver {
 public:
  Coarse(std::string module, std::string op, int bits)
      : module_(std::move(module)), op_(std::move(op)), bits_(bits), ops_(*this), modules_(*this) {}

  void enter(nn::Module& module) override { running_.push_back(module.describe()); }
  void leave(nn::Module&, const Tensor&) override { running_.pop_back(); }
  void before_backward(const Node&, std::span<const Tensor>) override { backward_ = true; }
  void after_backward(const Node&, std::span<const Tensor>) override { backward_ = false; }
  void after_forward(const OpInfo& info, std::span<const Tensor>, std::span<const Tensor> outputs) override {
    if (backward_ || op_ != info.name || running_.empty() ||
        running_.back().find(module_) == std::string::npos || outputs[0].dtype() != DType::f16)
      return;
    auto* const values = static_cast<std::uint16_t*>(outputs[0].raw());
    const std::vector<float> wide = outputs[0].to_vector<float>();
    for (std::size_t i = 0; i < wide.size(); ++i) {
      if (wide[i] == 0.0f) continue;
      const double step = std::exp2(std::ilogb(wide[i]) - bits_ + 1);
      const auto rounded = convert<Half>(static_cast<float>(std::nearbyint(wide[i] / step) * step));
      std::memcpy(values + i, &rounded, sizeof rounded);
    }
  }

 private:
  const std::string module_, op_;
  const int bits_;
  bool backward_ = false;
  std::vector<std::string> running_;
  ObserverScope ops_;
  nn::ModuleObserverScope modules_;
};

}  // namespace

TEST_CASE("the op that rounds to 5 bits has most of the error", "[blame]") {
  const config::Loaded loaded = smooth("amp_fp16");
  for (const auto& [layer, module] :
       {std::pair{"fc1", "Linear(64 → 64)"}, std::pair{"fc2", "Linear(64 → 10)"}}) {
    const Coarse coarse(module, "linear", 5);
    const planning::Blame blame = planning::blame(loaded, {}, 1, 1024.0);
    REQUIRE(blame.ops.size() >= 3);
    const planning::BlamedOp& first = blame.ops.front();
    CHECK(first.key.path == layer);
    CHECK(first.key.op == "linear");
    CHECK(first.share > 0.9);
    CHECK(first.cause == planning::Cause::rounding);
    CHECK(first.local > 0x1p-8);
    CHECK(first.local < 0x1p-4);
    for (std::size_t i = 1; i < blame.ops.size(); ++i) {
      CHECK(blame.ops[i].share <= blame.ops[i - 1].share);
      CHECK(blame.ops[i].local < 0x1p-9);
    }
    CHECK(blame.error > blame.noise);
  }
}

TEST_CASE("shares of a step add up to about its error, and looking leaves nothing behind", "[blame]") {
  const config::Loaded loaded = smooth("amp_bf16");
  const planning::Blame blame = planning::blame(loaded, {}, 1, 1.0),
                        again = planning::blame(loaded, {}, 1, 1.0);
  double sum = 0.0;
  for (std::size_t i = 0; i < blame.ops.size(); ++i) {
    sum += blame.ops[i].share;
    CHECK(blame.ops[i].share == again.ops[i].share);
  }
  CHECK(sum > 0.4);
  CHECK(sum < 1.6);
  CHECK(blame.error == again.error);
}

TEST_CASE("flushed gradients are told from rounding, and overflow from both", "[blame]") {
  const config::Loaded loaded = tiny("amp_fp16");
  const auto causes = [&](double scale) {
    std::vector<planning::Cause> found;
    for (const auto& op : planning::blame(loaded, {}, 1, scale).ops) found.push_back(op.cause);
    return found;
  };
  const auto flushed = causes(0x1p-32);
  CHECK(std::ranges::count(flushed, planning::Cause::flush) >
        static_cast<std::ptrdiff_t>(flushed.size() / 2));
  const auto overflown = causes(0x1p30);
  CHECK(std::ranges::count(overflown, planning::Cause::range) >
        static_cast<std::ptrdiff_t>(overflown.size() / 2));
  // Of a scale at which every gradient overflows, the results of forward are as they are.
  for (const auto& op : planning::blame(loaded, {}, 1, 0x1p30).ops) CHECK(op.local < 0x1p-8);
  const auto fits = causes(0x1p12);
  CHECK(std::ranges::count(fits, planning::Cause::range) == 0);
}

TEST_CASE("a step is taken apart with the segments of its loss scale", "[blame]") {
  const config::Loaded loaded = tiny("amp_fp16");
  train::Workbench bench(loaded, {});
  std::vector<amp::SegmentedLossScale::Segment> segments = {{.border = "loss", .parameters = {}},
                                                            {.border = "layer2", .parameters = {}}};
  const auto is_late = [](const std::string& path) {
    return path.starts_with("layer3") || path.starts_with("fc");
  };
  for (const auto& [path, parameter] : bench.model().parameter_paths())
    segments[is_late(path) ? 0 : 1].parameters.push_back(path);
  // By path, of ops that belong to a layer.
  const auto flushed = [&](int beside) {
    segments[1].log2_scale = beside;
    std::map<std::string, bool> found;
    for (const auto& op : planning::blame(loaded, {}, 1, 0x1p12, 0, segments).ops)
      if (op.key.op == "conv2d") found[op.key.path] = op.cause == planning::Cause::flush;
    return found;
  };
  const auto alike = flushed(0), apart = flushed(-44);
  REQUIRE(alike.size() > 15);
  REQUIRE(apart.size() == alike.size());
  for (const auto& [path, flushes] : apart) {
    CAPTURE(path);
    CHECK(flushes == (is_late(path) ? alike.at(path) : true));
  }
  // Where nothing is lost by it, the error is that of one scale.
  segments[1].log2_scale = -2;
  CHECK(planning::blame(loaded, {}, 1, 0x1p12, 0, segments).error ==
        Approx(planning::blame(loaded, {}, 1, 0x1p12).error).epsilon(0.05));
}

TEST_CASE("blame takes the phases of a GAN by themselves", "[blame]") {
  const config::Loaded loaded = config::load(
      "dcgan_fashion", {"data.batch_size=4", "model.width=4", "model.noise=8", "precision=amp_bf16"});
  const planning::Blame first = planning::blame(loaded, {}, 1, 1.0, 0),
                        second = planning::blame(loaded, {}, 1, 1.0, 1);
  const auto of = [](const planning::Blame& blame, const char* path) {
    return std::ranges::count_if(blame.ops, [&](const auto& op) { return op.key.path == path; });
  };
  CHECK(of(first, "generator.main.0") == 0);
  CHECK(of(first, "discriminator.main.0") == 2);  // real images and made ones
  CHECK(of(second, "generator.main.0") == 1);
  CHECK(of(second, "discriminator.main.0") == 1);
  for (const auto& blame : {first, second}) CHECK(blame.error > blame.noise);
}

TEST_CASE("blame takes level O1 or a plan", "[blame]") {
  for (const char* precision : {"fp32", R"({"level":"O2","dtype":"fp16"})",
                                R"({"level":"O1","dtype":"bf16","layers":{"^fc":"fp32"}})"})
    CHECK_THAT(user_error_of([&] { planning::blame(tiny(precision), {}, 1, 1.0); }),
               Contains("precision=amp_fp16"));
}

TEST_CASE("headroom: bits to the greatest exponent of FP16", "[headroom]") {
  inspect::GradientReport gradients;
  inspect::LayerGradients layer{.name = "a"};
  for (const float value : {0x1p-3f, 0x1.8p-3f, 0x1p-20f, 0x1p-36f, 0.0f}) layer.activations.add(value);
  gradients.layers = {layer, {.name = "still"}};
  gradients.all = layer;
  const inspect::HeadroomReport report = inspect::headroom(gradients, 10);
  REQUIRE(report.layers.size() == 1);
  CHECK(report.layers[0].bits == 8);  // 15 + 3 - 10
  CHECK(report.layers[0].flushed == 0.25);
  CHECK(report.narrow().empty());
  CHECK(inspect::headroom(gradients, 17).narrow().empty());
  CHECK(inspect::headroom(gradients, 18).narrow() == std::vector<std::string>{"a"});
  CHECK(inspect::headroom(gradients, 11).layers[0].flushed == 0.25);  // 2^-25 is a tie, which goes to zero
  CHECK(inspect::headroom(gradients, 12).layers[0].flushed == 0.0);
}

TEST_CASE("headroom is of the scale that a configuration starts with", "[headroom]") {
  CHECK(inspect::log2_scale_of(tiny("amp_fp16"), {}) == 16);
  CHECK(inspect::log2_scale_of(tiny("amp_bf16"), {}) == 0);
}
