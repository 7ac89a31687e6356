// Predicted memory of a configuration against actual memory.
#include "train/footprint.h"

#include "core/backend.h"
#include "core/memory_limit.h"
#include "core/random.h"
#include "nn/layers/transformer_block.h"
#include "tasks/sample_data.h"
#include "tests/support/temporary_files.h"
#include "tests/support/threads.h"
#include "train/learners.h"
#include "train/setup.h"

using namespace tandem;
using namespace tandem::testing;
using Catch::Contains;

namespace {

train::Footprint footprint_of(const config::Loaded& loaded) {
  return train::footprint_of(loaded, config::describe_data(loaded.config));
}

std::size_t kind(const std::array<std::size_t, kMemoryKindCount>& bytes, MemoryKind which) {
  return bytes[static_cast<std::size_t>(which)];
}

struct Measured {
  std::array<std::size_t, kMemoryKindCount> model{};  // live, by kind, before the step
  MemoryFigures step;                                 // of one, less what was live before everything
};

Measured measured(const config::Loaded& loaded) {
  host_allocator().reset_peak();
  const MemoryFigures before = host_allocator().figures();
  const auto less = [&](std::array<std::size_t, kMemoryKindCount> bytes) {
    for (std::size_t k = 0; k < bytes.size(); ++k) bytes[k] -= std::min(bytes[k], before.live_by_kind[k]);
    return bytes;
  };
  const auto task = config::make_task(loaded, config::describe_data(loaded.config));
  nn::Module* const model = &task->model();
  train::freeze_parameters(loaded.config, *model);
  const auto plan = train::resolve_precision(loaded, *model);
  train::Learners learners(*task, loaded, train::step_options(loaded.config),
                           [](double lr) { return optim::constant(lr); });
  optim::Step& step = *learners.front().step;
  Measured result{.model = less(host_allocator().figures().live_by_kind), .step = {}};
  const Index size = loaded.config.data.batch_size;
  const datasets::Batch batch(
      {{"image",
        Tensor::zeros(task->signatures().front().sample.inserted(0, size), {.kind = MemoryKind::data})},
       {"label", Tensor::zeros({size}, {.dtype = DType::i64, .kind = MemoryKind::data})}},
      size);
  const RandomScope random(1, 0, 0);
  const amp::Autocast autocast(*plan);
  step.backward(task->loss(batch), static_cast<double>(size));
  result.step = host_allocator().figures();
  result.step.peak -= before.live;
  result.step.peak_by_kind = less(result.step.peak_by_kind);
  return result;
}

class HostMemory {
 public:
  explicit HostMemory(std::size_t bytes) : before_(limit_host_memory(bytes)) {}
  ~HostMemory() { limit_host_memory(before_); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

 private:
  const std::size_t before_;
};

}  // namespace

TEST_CASE("a footprint is what the step's buffers take, and what a step takes at its peak", "[footprint]") {
  const std::vector<std::vector<std::string>> variants = {
      {"optimizer=sgd"},
      {"optimizer=adam", "ema={}"},
      {"precision=amp_bf16", "loss={\"class_weights\":[1,2,1,1,1,1,1,1,1,1]}"},
      {"precision={\"dtype\":\"bf16\",\"level\":\"O3\"}", "clip_norm=1"},
      {"init_from={\"path\":\"none\",\"freeze\":\"layer1\"}", "loss=focal"},
  };
  for (auto overrides : variants) {
    CAPTURE(overrides);
    overrides.emplace_back("data.batch_size=32");
    const config::Loaded loaded = config::load("resnet20_synthetic", overrides);
    const train::Footprint footprint = footprint_of(loaded);
    const Measured real = measured(loaded);
    CHECK(footprint.parameters == 272186);
    for (const MemoryKind each :
         {MemoryKind::weights, MemoryKind::masters, MemoryKind::gradients, MemoryKind::optimizer}) {
      INFO(name_of(each));
      CHECK(kind(footprint.model.live_by_kind, each) == kind(real.model, each));
    }
    // A CPU's kernels want workspace besides, and packed weights.
    CHECK(footprint.step.peak <= real.step.peak);
    CHECK(static_cast<double>(kind(footprint.step.live_by_kind, MemoryKind::activations)) ==
          Approx(static_cast<double>(kind(real.step.peak_by_kind, MemoryKind::activations))).epsilon(0.1));
  }
}

// A Transformer's step takes its memory from activations alone.
TEST_CASE("a footprint tells what recomputed activations save", "[footprint]") {
  const test::OneThread one;  // workspace of several threads would move the peak to another op
  const auto loaded_with = [](const char* recompute) {
    return config::load(
        "resnet20_synthetic",
        {fmt::format(
             R"(model={{"name":"vit","patch":4,"num_layers":4,"width":64,"heads":4,"recompute":"{}"}})",
             recompute),
         "precision=amp_bf16", "data.batch_size=32"});
  };
  std::vector<double> peaks;
  for (std::size_t part = 0; part < nn::kRecomputeNames.size(); ++part) {
    CAPTURE(nn::kRecomputeNames[part]);
    const config::Loaded loaded = loaded_with(nn::kRecomputeNames[part]);
    const train::Footprint footprint = footprint_of(loaded);
    const MemoryFigures real = measured(loaded).step;
    REQUIRE(footprint.recompute.size() == 3);
    for (const MemoryFigures& told : {footprint.step, footprint.recompute[part]}) {
      CHECK(told.peak <= real.peak);
      CHECK(static_cast<double>(kind(told.live_by_kind, MemoryKind::activations)) ==
            Approx(static_cast<double>(kind(real.peak_by_kind, MemoryKind::activations))).epsilon(0.1));
    }
    peaks.push_back(static_cast<double>(kind(real.peak_by_kind, MemoryKind::activations)));
  }
  CHECK(peaks[1] < 0.85 * peaks[0]);
  CHECK(peaks[2] < 0.5 * peaks[0]);
  const train::Footprint footprint = footprint_of(loaded_with("none"));
  CHECK_THAT(train::recompute_text(footprint),
             Contains("model.recompute: none ") && Contains("; mlp ") && Contains("; block "));
  const HostMemory limited(footprint.recompute[0].peak - 1);
  CHECK_THAT(user_error_of([&] { train::require_memory(loaded_with("none"), footprint); }),
             Contains("set model.recompute to mlp, which needs"));
}

TEST_CASE("a footprint takes no memory", "[footprint]") {
  const config::Loaded loaded = config::load(
      "digits_mlp", {"model={\"name\":\"mlp\",\"hidden\":[16777216,16777216]}", "data.batch_size=1048576"});
  const MemoryFigures before = host_allocator().figures();
  const train::Footprint footprint = train::footprint_of(
      loaded, std::make_shared<tasks::SampleData>(
                  datasets::DatasetInfo{.name = "digits", .sample_shape = {8, 8, 1}, .classes = 10}, 0));
  CHECK(host_allocator().figures().peak_reserved - before.reserved < std::size_t{64} << 20);
  CHECK(static_cast<double>(footprint.largest_bytes) == 0x1p50);
  CHECK_THAT(footprint.largest, Contains("[16777216,16777216]"));
}

TEST_CASE("models that do not fit are refused with helpful advice", "[footprint]") {
  const auto refusal = [](const std::vector<std::string>& overrides, std::size_t memory) {
    const config::Loaded loaded = config::load("resnet20_synthetic", overrides);
    const train::Footprint footprint = footprint_of(loaded);
    const HostMemory limited(memory);
    return user_error_of([&] { train::require_memory(loaded, footprint); });
  };
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  CHECK(refusal({}, 1024 * kMiB).empty());
  CHECK_THAT(refusal({}, 2 * kMiB),
             Contains("resnet20_synthetic.json:") &&
                 Contains("model: training its 272186 parameters needs") && Contains("2.0 MiB") &&
                 Contains("fewer units or layers") && Contains("layer3.0.conv2.weight") &&
                 Contains("A smaller batch does not help") && !Contains("an optimizer with less state"));
  CHECK_THAT(refusal({"optimizer=adam"}, 4 * kMiB), Contains("an optimizer with less state"));
  CHECK_THAT(refusal({"data.batch_size=128"}, 20 * kMiB),
             Contains("data.batch_size: a step on 128 samples needs") && Contains("about 1") &&
                 Contains("accumulate") && !Contains("fewer units"));
}
