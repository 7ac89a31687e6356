// Batch fields that the host reads, such as lengths of texts: reading them waits for no device, and no
// recording contains such a read, which would repeat for each batch.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/kernels/attention.h"
#include "core/op_options.h"
#include "tests/device/emulator.h"
#include "tests/device/support.h"
#include "tests/program/support.h"
#include "tests/support/errors.h"
#include "tests/support/uneven_data.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// One of the runs of uneven_data.h.
testing::UnevenRun run_named(const testing::TemporaryDirectory& directory, const std::string& name) {
  for (testing::UnevenRun& run : testing::uneven_runs(directory))
    if (run.name == name) return run;
  throw InternalError("test", "there is no run " + name);
}

config::Loaded load(const testing::TemporaryDirectory& directory, const std::string& name,
                    const std::vector<std::string>& overrides) {
  return config::load(directory.write("config.json", run_named(directory, name).config.dump()), overrides);
}

struct Case {
  std::string run;
  std::vector<std::string> overrides;
};

}  // namespace

TEST_CASE("the host does not wait for what it reads of a batch", "[device][emulated]") {
  const Emulator gpu = emulator();
  if (!gpu) {
    WARN("skipped: the device is not the emulated GPU");
    return;
  }
  const testing::TemporaryDirectory directory;
  const std::vector<Case> cases = {{"tokens", {}},
                                   {"texts", {}},
                                   {"anchors", {"accumulate=2"}},
                                   {"pixels by class weights", {"accumulate=2"}}};
  for (const Case& c : cases) {
    INFO(c.run);
    const config::Loaded loaded = load(directory, c.run, c.overrides);
    Setup setup(loaded, config::open_data(loaded.config, {}), train::GraphUse::off);
    std::vector<datasets::Batch> batches;
    for (std::uint64_t i = 0; i < 2; ++i)
      batches.push_back(setup.task->synthetic_batch(loaded.config.data.batch_size, i, test_device()));
    const auto step = [&] {
      for (int i = 0; i < loaded.config.accumulate; ++i)
        setup.runner->backward(batches[static_cast<std::size_t>(i)], setup.carry);
      setup.runner->apply();
    };
    for (int i = 0; i < 3; ++i) step();
    setup.step->synchronize();
    const auto waits = gpu.counts().host_waits;
    for (int i = 0; i < 4; ++i) step();
    // For the outcome of each step, two steps later.
    CHECK(gpu.counts().host_waits - waits <= 4);
  }
}

TEST_CASE("copies of the host's memory and lengths of rows are not recorded", "[device][recording]") {
  Backend& backend = backend_under_test();
  if (!backend.records()) return;
  const Tensor x = random_tensor({2, 3}, DType::f32, 1);
  const Tensor host = x.to(Device{}),
               y = Tensor::zeros({2, 3}, {.dtype = DType::f32, .device = test_device()});
  CHECK_FAILS(VendorError, backend.record([&] { x.to(Device{}); }),
              "is pageable host memory, which a recording cannot copy");
  CHECK_FAILS(VendorError, backend.record([&] { backend.copy_bytes(host, y); }),
              "is pageable host memory, which a recording cannot copy");

  const AttentionMask seen{.lengths = Tensor::from(std::vector<std::int64_t>{1, 3}, {2})};
  CHECK_FAILS(VendorError, backend.record([&] { backend.attention().masked_softmax(x, seen, y); }),
              "row lengths are in host memory");
  CHECK_FAILS(VendorError,
              backend.record([&] { backend.attention().masked_softmax_backward(x, x, seen, y); }),
              "row lengths are in host memory");

  // Of page-locked memory they are, and a mask without lengths is.
  const Tensor locked = transfer_memory({2, 3}, DType::f32, test_device());
  const auto copies = backend.record([&] {
    backend.copy_bytes(x, locked);
    backend.copy_bytes(locked, y);
  });
  copies->replay();
  CHECK(y.to_vector<float>() == x.to_vector<float>());
  const auto softmax = backend.record([&] { backend.attention().masked_softmax(x, {.causal = true}, y); });
  softmax->replay();
  CHECK(y.to_vector<float>()[0] > 0.0F);
}

TEST_CASE("a step that reads on the host is done the ordinary way", "[device][recording]") {
  if (!backend_under_test().records()) return;
  const testing::TemporaryDirectory directory;
  for (const std::string name : {"tokens", "texts"}) {
    INFO(name);
    const config::Loaded loaded = load(directory, name, {"precision=amp_bf16", "optimizer.lr=0.1"});
    const tasks::DataPtr data = config::open_data(loaded.config, {});
    Setup ordinary(loaded, data, train::GraphUse::off), automatic(loaded, data, train::GraphUse::automatic);
    for (std::uint64_t i = 0; i < 7; ++i) {
      const datasets::Batch batch =
          ordinary.task->synthetic_batch(loaded.config.data.batch_size, i, test_device());
      for (Setup* setup : {&ordinary, &automatic}) {
        setup->runner->backward(batch, setup->carry);
        setup->runner->apply();
      }
    }
    CHECK_FALSE(automatic.runner->recorded());
    CHECK_THAT(automatic.runner->why_not_recorded(), Catch::Contains("pageable host memory"));
    CHECK((automatic.state() == ordinary.state()));
    Setup insisting(loaded, data, train::GraphUse::on);
    const datasets::Batch batch =
        insisting.task->synthetic_batch(loaded.config.data.batch_size, 0, test_device());
    const auto step = [&] {
      insisting.runner->backward(batch, insisting.carry);
      insisting.runner->apply();
    };
    for (int i = 0; i < 3; ++i) step();
    CHECK_FAILS(VendorError, step(), "pageable host memory");
  }
}

TEST_CASE("translators and classifiers of texts train on a device as on the CPU", "[device][program]") {
  const testing::TemporaryDirectory directory;
  const std::string device = test_device().type == DeviceType::cuda ? "cuda" : "cpu";
  for (const std::string name : {"tokens", "texts"}) {
    const std::string config = directory.write(name + ".json", run_named(directory, name).config.dump());
    for (const std::string precision : {"fp32", "amp_bf16"}) {
      INFO(name << ", " << precision);
      // More steps of full batches than come before a recording.
      const auto train = [&](const std::string& run, const std::string& where, const std::string& graphs) {
        const testing::Outcome outcome = testing::tandem_in(
            directory, {"train", config, "run_dir=" + run, "device=" + where, "allow_tf32=false",
                        "precision=" + precision, "cuda_graph=" + graphs, "optimizer.lr=0.1", "epochs=9"});
        INFO(outcome.err);
        REQUIRE(outcome.exit_code == 0);
        return testing::events_of(directory / run, "step");
      };
      const std::string run = name + "-" + precision;
      const auto expected = train(run + "-cpu", "cpu", "auto"), got = train(run + "-auto", device, "auto");
      REQUIRE(got.size() == expected.size());
      CHECK(got.size() >= 9);
      const double tolerance = precision == "fp32" ? 1e-4 : 2e-2;
      for (std::size_t i = 0; i < got.size(); ++i) {
        INFO("step " << i + 1);
        const double loss = got[i]["loss"], other = expected[i]["loss"];
        CHECK(std::abs(loss - other) <= tolerance * std::abs(other));
      }
      train(run + "-off", device, "off");
      const auto state = [&](const std::string& of) {
        return testing::saved_tensors(directory.path() / of, "state");
      };
      CHECK((state(run + "-auto") == state(run + "-off")));
    }
  }
}
