// Profile of a step: its ops, their counts, memory traffic and computation, but not times.
#include "studies/profile/profile.h"

#include <algorithm>
#include <cmath>

#include "autograd/engine.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "tests/device/support.h"

using namespace tandem;
using profile::Call;
using profile::Direction;
using profile::Recorder;

namespace {

constexpr Index kSamples = 6, kChannels = 8, kPositions = kSamples * 8 * 8, kFeatures = 8 * 8 * kChannels;

// The calls of what `work` asks for, by "op" or "op backward".
class Recorded {
 public:
  template <class Work>
  explicit Recorded(const Work& work) : recorder_(test::backend_under_test(), 0) {
    recorder_.begin_step();
    {
      const ObserverScope observed(recorder_);
      work();
    }
    recorder_.end_step();
  }

  // One step of a training.
  explicit Recorded(test::Training& training)
      : recorder_(test::backend_under_test(), training.step->update_bytes()) {
    training.stages.set_observer(&recorder_);
    recorder_.begin_step();
    {
      const ObserverScope observed(recorder_);
      training.run(0);
    }
    recorder_.end_step();
    training.stages.set_observer(nullptr);
  }

  std::vector<std::string> names(bool inner = false) const {
    std::vector<std::string> names;
    for (const Call& call : recorder_.calls()) {
      if (inner || (call.part_of < 0 && call.inserted_for < 0)) names.push_back(name_of(call));
    }
    return names;
  }

  const Call& operator[](const std::string& name) const {
    const auto found = std::ranges::find(recorder_.calls(), name, name_of);
    INFO(name);
    REQUIRE(found != recorder_.calls().end());
    return *found;
  }

  const Recorder& recorder() const { return recorder_; }

 private:
  static std::string name_of(const Call& call) {
    if (!call.op) return "update";
    return call.op->name + std::string(call.direction == Direction::backward ? " backward" : "");
  }

  Recorder recorder_;
};

Tensor random_leaf(const Shape& shape) { return leaf(test::random_tensor(shape, DType::f32, 1)); }

}  // namespace

TEST_CASE("every op of a step is recorded once", "[profile]") {
  test::Training training({}, train::GraphUse::off);
  training.run(0);
  const Recorded step(training);
  CHECK(step.names() == std::vector<std::string>{"conv2d", "batch_norm_train", "relu", "dropout", "reshape",
                                                 "linear", "cross_entropy", "cross_entropy backward",
                                                 "linear backward", "reshape backward", "dropout backward",
                                                 "relu backward", "batch_norm_train backward",
                                                 "conv2d backward", "update"});
  for (const Call& call : step.recorder().calls()) CHECK(call.seconds >= 0.0);
  for (const train::Stage stage : {train::Stage::forward, train::Stage::loss, train::Stage::backward})
    CHECK(step.recorder().stage_seconds(stage) <= step.recorder().step_seconds());
}

TEST_CASE("FLOPs of products are those of the formula, in both passes", "[profile]") {
  test::Training training({}, train::GraphUse::off);
  const Recorded step(training);
  const Index conv = 2 * kPositions * kChannels * 3 * 3 * 3;
  CHECK(step["conv2d"].flop == conv);
  CHECK(step["conv2d backward"].flop == conv);  // images have no gradient
  const Index linear = 2 * kSamples * kFeatures * 10;
  CHECK(step["linear"].flop == linear);
  CHECK(step["linear backward"].flop == 2 * linear);
  CHECK(step["relu"].flop == 0);
  CHECK(step["sum_of_outer_products backward"].flop == linear);
  const auto& calls = step.recorder().calls();
  CHECK(calls[static_cast<std::size_t>(step["sum_of_outer_products backward"].part_of)].op ==
        step["linear backward"].op);
  CHECK(step.recorder().shapes(step["conv2d backward"]) == "f32[6,8,8,3] f32[8,3,3,3] → f32[6,8,8,8]");
}

TEST_CASE("bytes are those of what an op reads and writes", "[profile]") {
  test::Training training({}, train::GraphUse::off);
  const Recorded step(training);
  const Index image = kPositions * kChannels * 4;
  CHECK(step["relu"].bytes == 2 * image);
  CHECK(step["relu backward"].bytes == 3 * image);
  CHECK(step["reshape"].bytes == 0);
  CHECK(step["reshape backward"].bytes == 0);
  // x, filter, y; dy, x, filter (saved, though only its gradient is formed), dfilter.
  const Index filter = kChannels * 3 * 3 * 3 * 4, x = kPositions * 3 * 4;
  CHECK(step["conv2d"].bytes == x + filter + image);
  CHECK(step["conv2d backward"].bytes == x + 2 * filter + image);
  // x, gamma, beta, y; mean and rstd are written for backward.
  CHECK(step["batch_norm_train"].bytes == 2 * image + 4 * kChannels * 4);
  CHECK(step["update"].bytes == training.step->update_bytes());
  const Index weights = kChannels * 27 + 2 * kChannels + kFeatures * 10 + 10;
  CHECK(training.step->update_bytes() >= 3 * 4 * weights);
}

TEST_CASE("casts that precision inserts are calls apart", "[profile]") {
  test::Training training({"precision=amp_bf16"}, train::GraphUse::off);
  const Recorded step(training);
  const Call& cast = step["cast"];
  REQUIRE(cast.inserted_for >= 0);
  const auto& calls = step.recorder().calls();
  CHECK(calls[static_cast<std::size_t>(cast.inserted_for)].op->name == std::string("conv2d"));
  CHECK(cast.bytes == kPositions * 3 * (4 + 2));
  CHECK(step["conv2d"].operands == DType::bf16);
  CHECK(step["conv2d backward"].operands == DType::bf16);
  CHECK(step["conv2d"].bytes == 2 * (kPositions * 3 + kChannels * 27 + kPositions * kChannels));
  for (const Call& call : calls) CHECK(call.seconds >= 0.0);
}

TEST_CASE("an op that is made of ops is one call", "[profile]") {
  const Tensor x = random_leaf({4, 5}), target = test::random_tensor({4, 5}, DType::f32, 2);
  const Recorded loss([&] { backward(mse_loss(x, target)); });
  CHECK(loss.names(true) == std::vector<std::string>{"mse_loss", "mse_loss backward"});
  CHECK(loss["mse_loss"].bytes == 2 * 80 + 4);
}

TEST_CASE("forwarded and unread tensors do not count", "[profile]") {
  const Tensor a = random_leaf({4, 6}), b = random_leaf({4, 6});
  const Recorded sum([&] {
    const Tensor y = add(a, b), seed = test::random_tensor({4, 6}, DType::f32, 3);
    backward({&y, 1}, {&seed, 1});
  });
  CHECK(sum["add"].bytes == 3 * 96);
  CHECK(sum["add backward"].bytes == 0);
  const Tensor table = random_leaf({100, 8});
  const Tensor index = Tensor::from(std::vector<std::int64_t>{3, 1, 3}, {3}, test::test_device());
  const Recorded rows([&] { embedding(table, index); });
  CHECK(rows["embedding"].bytes == 2 * 3 * 8 * 4 + 3 * 8);
  const Recorded square([&] { mul(a, a); });
  CHECK(square["mul"].bytes == 2 * 96);
}

TEST_CASE("a bound is the larger of moving and computing", "[profile]") {
  const profile::Limits limits{.bytes_per_second = 100.0,
                               .products = {{DType::f32, 10.0}, {DType::f16, 1000.0}}};
  CHECK(limits.bound(200, 0, DType::f32) == 2.0);
  CHECK(limits.bound(200, 10, DType::f32) == 2.0);
  CHECK(limits.bound(200, 50, DType::f32) == 5.0);
  CHECK(limits.bound(200, 5000, DType::f16) == 5.0);
  CHECK(limits.bound(0, 50, DType::f64) == 5.0);
  CHECK(profile::Cost{.seconds = 4.0, .bound = 1.0}.roofline() == 0.25);
}

TEST_CASE("a profile adds up, and its JSON has every key", "[profile]") {
  test::Training training({"precision=amp_bf16"}, train::GraphUse::off);
  std::uint64_t batches = 0;
  const profile::Profile profile = profile::measure(test::backend_under_test(), training.step->update_bytes(),
                                                    training.stages, 2, [&] { training.run(batches++); });
  CHECK(batches == 4);

  profile::Cost families, ops;
  for (const auto& family : profile.families) families += family.cost;
  for (const auto& op : profile.slowest) ops += op.cost;
  const auto same = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); };
  for (const auto& sum : {families, ops}) {
    CHECK(same(sum.seconds, profile.ops.seconds));
    CHECK(same(sum.calls, profile.ops.calls));
    CHECK(same(sum.bytes, profile.ops.bytes));
    CHECK(same(sum.flop, profile.ops.flop));
    CHECK(same(sum.bound, profile.ops.bound));
  }
  CHECK(profile.rest_seconds() >= 0.0);
  for (const auto& family : profile.families) {
    INFO(family.family);
    CHECK(std::isfinite(family.cost.roofline()));
    CHECK((family.cost.roofline() > 0.0) == (family.cost.bytes > 0.0));
  }
  CHECK(std::ranges::is_sorted(profile.slowest, std::ranges::greater{},
                               [](const profile::OpCost& op) { return op.cost.seconds; }));

  const auto json = profile::to_json(profile);
  const auto keys = [](const nlohmann::ordered_json& object) {
    std::vector<std::string> names;
    for (const auto& [key, value] : object.items()) names.push_back(key);
    return names;
  };
  CHECK(keys(json) == std::vector<std::string>{"steps", "step_ms", "ops_ms", "between_ms", "phases_ms",
                                               "families", "slowest", "limits"});
  CHECK(keys(json["phases_ms"]) == std::vector<std::string>{"forward", "loss", "backward", "update"});
  CHECK(keys(json["families"][0]) == std::vector<std::string>{"family", "direction", "calls", "ms",
                                                              "share_of_step", "gb_per_s", "tflop_per_s",
                                                              "share_of_roofline"});
  CHECK(json["slowest"].size() == profile.slowest.size());
  CHECK(keys(json["slowest"][0])[2] == "shapes");
  const auto with_parts =
      std::ranges::find_if(json["slowest"], [](const auto& op) { return op.contains("parts"); });
  REQUIRE(with_parts != json["slowest"].end());
  CHECK(keys((*with_parts)["parts"][0])[0] == "op");
  CHECK(keys(json["limits"]) == std::vector<std::string>{"copy_gb_per_s", "product_tflop_per_s", "empty_us"});
  CHECK(keys(json["limits"]["product_tflop_per_s"]) == std::vector<std::string>{"f32", "bf16"});
  CHECK(json["limits"]["product_tflop_per_s"]["bf16"].get<double>() > 0.0);
}

TEST_CASE("a convolution's row says what computed it on a CPU", "[profile]") {
  test::Training training({}, train::GraphUse::off);
  const Recorded step(training);
  const bool on_cpu = test::test_device().type == DeviceType::cpu;
  const auto known = [&](const Call& call) {
    const std::string& text = step.recorder().algorithms(call);
    INFO(text);
    // 3→8 channels: no kernel of Tandem's own.
    CHECK((on_cpu ? text.starts_with("library ") && text.find(',') == std::string::npos : text.empty()));
  };
  known(step["conv2d"]);
  known(step["conv2d_filter_gradient backward"]);
  CHECK(step.recorder().algorithms(step["conv2d backward"]).empty());  // told by its part
  CHECK(step.recorder().algorithms(step["linear"]).empty());

  const Tensor x = random_leaf({2, 8, 8, 16}), filter = random_leaf({16, 3, 3, 16});
  const auto forward = [&] { conv2d(x, filter, {}, {.padding = {1, 1}}); };
  std::string names = "direct";
  const auto forced = [&](cpu::ConvAlgorithm algorithm) {
    const cpu::ForcedConvolution by(algorithm);
    const Recorded recorded(forward);
    return recorded.recorder().algorithms(recorded["conv2d"]);
  };
  if (on_cpu) CHECK(forced(cpu::ConvAlgorithm::generic) == "generic");

  profile::add_names(names, "library a:b_c");
  profile::add_names(names, "library a:b");
  profile::add_names(names, "direct, winograd");
  profile::add_names(names, "");
  CHECK(names == "direct, library a:b_c, library a:b, winograd");

  training.run(0);
  const auto json = profile::to_json(
      profile::measure(test::backend_under_test(), 1, training.stages, 1, [&] { training.run(0); }));
  const auto convolution = std::ranges::find_if(
      json["slowest"], [](const auto& op) { return op["op"] == "conv2d" && op["direction"] == "forward"; });
  REQUIRE(convolution != json["slowest"].end());
  CHECK(convolution->contains("algorithms") == on_cpu);
}

TEST_CASE("profiling changes no bits of a step", "[profile]") {
  test::Training plain({"precision=amp_bf16"}, train::GraphUse::off),
      watched({"precision=amp_bf16"}, train::GraphUse::off);
  for (int i = 0; i < 3; ++i) {
    plain.run(0);
    const Recorded step(watched);
  }
  CHECK(plain.state() == watched.state());
}
