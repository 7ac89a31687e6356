// Number of nodes (kernels, copies, fills) in the recorded step of whole models, because a GPU takes
// microseconds to start each. The emulated GPU counts them; a product, a convolution and a sort of the
// vendors' libraries are one node each.
#include "tests/device/emulator.h"
#include "tests/device/support.h"

using namespace tandem;
using namespace tandem::test;

namespace {

struct Workload {
  std::string config;
  std::vector<std::string> overrides;
  std::uint64_t nodes;
};

// Small widths and images: the same work on less.
std::vector<Workload> workloads() {
  const std::vector<std::string> imagenet = {"model.width=8", "data.image_size=32", "data.batch_size=2",
                                             "data.classes=8", "model.num_classes=8"};
  const auto with = [](std::vector<std::string> a, const std::vector<std::string>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const std::vector<std::string> small = {"model.width=8", "data.image_size=8", "data.batch_size=2"};
  return {
      {"resnet50_synthetic", with(imagenet, {"precision=amp_bf16"}), 511},
      {"resnet50_synthetic", with(imagenet, {"precision=amp_fp16"}), 511},
      {"resnet50_synthetic", with(imagenet, {"precision=fp32"}), 503},
      {"resnet20_synthetic", with(small, {"precision=amp_bf16"}), 229},
      {"debian_lstm",
       {"data.vocabulary=50", "model.units=16", "model.embedding=16", "data.batch_size=2"},
       356},
      {"fashion_attention", {"data.batch_size=2"}, 192},
      {"ssd_scenes", {"data.batch_size=2", "precision=amp_bf16"}, 221},
      {"unet_scenes", {"data.batch_size=2", "model.width=8", "precision=amp_bf16"}, 225},
  };
}

}  // namespace

TEST_CASE("a recorded step has as many nodes as before", "[device][emulated][recording]") {
  const Emulator gpu = emulator();
  if (!gpu) {
    WARN("skipped: the device is not the emulated GPU");
    return;
  }
  for (const Workload& w : workloads()) {
    INFO(w.config << " " << w.overrides.back());
    const config::Loaded loaded = config::load(w.config, w.overrides);
    Setup setup(loaded, config::describe_data(loaded.config), train::GraphUse::on);
    const auto step = [&](std::uint64_t number) {
      setup.runner->backward(
          setup.task->synthetic_batch(loaded.config.data.batch_size, number, test_device()), setup.carry);
      setup.runner->apply();
    };
    for (std::uint64_t i = 0; i < 3; ++i) step(i);
    const std::uint64_t before = gpu.counts().graph_nodes;
    step(3);
    INFO(setup.runner->why_not_recorded());
    REQUIRE(setup.runner->recorded());
    CHECK(gpu.counts().graph_nodes - before == w.nodes);
  }
}
