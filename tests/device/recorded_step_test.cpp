// Recorded steps give the bits of ordinary steps.
#include <cmath>
#include <cstring>

#include "autograd/modes.h"
#include "core/error.h"
#include "core/kernels/reduce.h"
#include "tests/device/support.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void check_same(const optim::StepReport& a, const optim::StepReport& b) {
  CHECK(a.attempted == b.attempted);
  CHECK(a.applied == b.applied);
  CHECK(a.skip == b.skip);
  CHECK(same_number(a.loss, b.loss));
  CHECK(same_number(a.gradient_norm, b.gradient_norm));
  CHECK(a.learning_rate == b.learning_rate);
  CHECK(a.loss_scale == b.loss_scale);
  CHECK(a.next_loss_scale == b.next_loss_scale);
}

void check_same_state(Training& a, Training& b) {
  const auto first = a.state(), second = b.state();
  REQUIRE(first.size() == second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    INFO(first[i].first);
    CHECK(first[i].first == second[i].first);
    REQUIRE(first[i].second.size() == second[i].second.size());
    bool same = true;
    for (std::size_t k = 0; k < first[i].second.size(); ++k)
      same = same && same_number(first[i].second[k], second[i].second[k]);
    CHECK(same);
  }
}

bool device_records() { return backend_under_test().records(); }

}  // namespace

TEST_CASE("recorded steps have the bits of ordinary ones", "[device][recording]") {
  const std::vector<std::vector<std::string>> settings = {
      {"precision=fp32", "clip_norm=1", "ema={}"},
      {"precision=amp_bf16", "optimizer={\"name\": \"adamw\", \"lr\": 0.01}"},
      // Starts so high that steps are skipped, and moves.
      {"precision=amp_fp16", "precision.scaler.initial=16777216", "precision.scaler.interval=3"},
      {"precision=amp_fp16", "precision.level=O2", "optimizer={\"name\": \"adam\", \"lr\": 0.01}"},
      // Updates that are ops, of steps that are skipped, too.
      {"precision=amp_fp16", "optimizer={\"name\": \"muon\", \"lr\": 0.01}",
       "precision.scaler.initial=16777216", "precision.scaler.interval=3"},
      {"precision=amp_bf16", "optimizer={\"name\": \"adafactor\", \"lr\": 0.01, \"beta1\": 0.9}",
       "clip_norm=1"},
  };
  for (const auto& overrides : settings) {
    INFO(overrides[0] << " " << overrides[1]);
    Training ordinary(overrides, train::GraphUse::off), recorded(overrides);
    for (std::uint64_t i = 0; i < 9; ++i) {
      INFO("step " << i);
      check_same(recorded.run(i), ordinary.run(i));
    }
    CHECK(recorded.runner->recorded() == device_records());
    CHECK(recorded.runner->why_not_recorded().empty());
    CHECK_FALSE(ordinary.runner->recorded());
    check_same_state(recorded, ordinary);
  }
}

TEST_CASE("recorded and ordinary micro-batches mix", "[device][recording]") {
  const std::vector<std::string> overrides = {"precision=amp_fp16", "accumulate=2"};
  Training ordinary(overrides, train::GraphUse::off), recorded(overrides);
  // A short last batch, a step of one micro-batch, and full ones again.
  const std::vector<std::vector<Index>> steps = {{6, 6}, {6, 6}, {6, 6}, {6, 6}, {6, 6},
                                                 {6, 3}, {6},    {6, 6}, {3},    {6, 6}};
  std::uint64_t first = 0;
  for (const auto& sizes : steps) {
    check_same(recorded.run(first, sizes), ordinary.run(first, sizes));
    first += sizes.size();
  }
  CHECK(recorded.runner->recorded() == device_records());
  check_same_state(recorded, ordinary);
}

TEST_CASE("a step that is dropped after recordings leaves nothing behind", "[device][recording]") {
  const std::vector<std::string> overrides = {"precision=amp_fp16"};
  Training plain(overrides, train::GraphUse::off), dropped(overrides);
  for (std::uint64_t i = 0; i < 6; ++i) {
    plain.run(i);
    dropped.run(i);
  }
  dropped.runner->backward(Training::batch(50), dropped.carry);
  dropped.step->clear();
  check_same(dropped.run(6), plain.run(6));
  check_same_state(dropped, plain);
}

TEST_CASE("evaluations between recorded steps do not affect them", "[device][recording]") {
  const std::vector<std::string> overrides = {"precision=amp_bf16", "ema={\"decay\": 0.5}"};
  Training ordinary(overrides, train::GraphUse::off), recorded(overrides);
  const auto evaluate = [](Training& training) {
    const NoGrad no_grad;
    const optim::Ema::Scope averages(*training.step->ema());
    const nn::ModeScope evaluation(*training.model, false);
    return training.runner->loss_again(Training::batch(77), {}, 0, {.attempted = 1}).item();
  };
  for (std::uint64_t i = 0; i < 9; ++i) {
    check_same(recorded.run(i), ordinary.run(i));
    if (i >= 5) CHECK(evaluate(recorded) == evaluate(ordinary));  // first after recording
  }
  check_same_state(recorded, ordinary);
}

TEST_CASE("a run goes on from its state in recordings as without", "[device][recording]") {
  const std::vector<std::string> overrides = {"precision=amp_fp16"};
  Training whole(overrides), first(overrides), second(overrides);
  for (std::uint64_t i = 0; i < 12; ++i) whole.run(i);
  for (std::uint64_t i = 0; i < 6; ++i) first.run(i);
  second.step->load_state(first.step->state());
  for (std::uint64_t i = 6; i < 12; ++i) second.run(i);
  check_same_state(second, whole);
}

TEST_CASE("a short batch at first does not keep full ones from being recorded", "[device][recording]") {
  const std::vector<std::string> overrides = {"precision=fp32"};
  Training ordinary(overrides, train::GraphUse::off), recorded(overrides);
  // A run that goes on just before the last batch of an epoch.
  check_same(recorded.run(0, {3}), ordinary.run(0, {3}));
  for (std::uint64_t i = 1; i < 7; ++i) check_same(recorded.run(i), ordinary.run(i));
  CHECK(recorded.runner->recorded() == device_records());
  check_same_state(recorded, ordinary);
}

TEST_CASE("recordings share their memory", "[device][recording]") {
  if (!device_records()) return;
  Backend& backend = backend_under_test();
  const std::size_t bytes = std::size_t{64} << 20;
  const auto sum_of = [&](const Tensor& y) {
    return backend.record([&] {
      const Tensor x = Tensor::empty({static_cast<Index>(bytes / sizeof(float))},
                                     {DType::f32, test_device(), MemoryKind::activations});
      backend.fill(x, 1.0);
      backend.reduce().reduce(Reduction::sum, x, 1, y);
    });
  };
  const Tensor y = Tensor::zeros({3}, {DType::f32, test_device(), MemoryKind::activations});
  const std::size_t before = backend.memory().reserved;
  std::vector<std::unique_ptr<Recording>> recordings;
  for (Index i = 0; i < 3; ++i) recordings.push_back(sum_of(y.rows(i, 1).viewed(Shape{})));
  const std::size_t with = backend.memory().reserved;
  CHECK(with >= before + bytes);
  CHECK(with < before + 2 * bytes);
  for (int again = 0; again < 2; ++again) {
    backend.fill(y, 0.0);
    for (const auto& recording : recordings) recording->replay();
    CHECK(y.to_vector<float>() == std::vector<float>(3, static_cast<float>(bytes / sizeof(float))));
  }
  recordings.clear();
  CHECK(backend.memory().reserved <= before);
}

TEST_CASE("recordings are refused where they would be wrong", "[device][recording]") {
  if (!device_records()) {
    Training training({"precision=fp32"});
    CHECK_FAILS(UserError, training.step->record_apply(), "does not record work");
    CHECK_FAILS(UserError, Training({"precision=fp32"}, train::GraphUse::on),
                "cuda_graph: on needs a CUDA device");
    return;
  }
  Training training({"precision=fp32", "accumulate=2"});
  Training::batch(0);
  const auto forward = [&] {
    return training.runner->loss_again(Training::batch(0), {}, 0, {.attempted = 1});
  };
  training.run(0, {6, 6});
  const auto batch = Training::batch(0);
  auto recorded = training.step->record_backward(
      [&] {
        const amp::Autocast autocast(*training.plan);
        return training.task->loss(batch);
      },
      6.0);
  CHECK_FAILS(UserError, training.step->backward(*recorded),
              "micro-batch number 0 was recorded, number 1 is due");
  training.step->backward(forward(), 6.0);
  training.step->apply();
  CHECK_NOTHROW(training.step->backward(*recorded));
  training.step->clear();
}
