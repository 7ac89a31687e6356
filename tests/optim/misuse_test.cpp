// Misused, invalid and failing steps.
#include "autograd/engine.h"
#include "core/allocator.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("misuse is an error", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd}, {.accumulate = 2});
  CHECK_THAT(message_of([&] { step.apply(); }), Catch::Contains("[step] apply() without a backward()"));
  step.backward(golden_loss(*toy, 0));
  CHECK_FALSE(step.ready());
  step.backward(golden_loss(*toy, 1));
  CHECK(step.ready());
  CHECK_THAT(message_of([&] { step.backward(golden_loss(*toy, 2)); }), Catch::Contains("accumulate 2"));
  step.apply();
  CHECK_THROWS_AS(step.apply(), UserError);

  backward(golden_loss(*toy, 0));
  CHECK_THAT(message_of([&] { step.backward(golden_loss(*toy, 0)); }),
             Catch::Contains("a gradient that does not come from Step::backward"));
  step.clear();
  CHECK_THAT(message_of([&] { step.backward((*toy)[0]); }), Catch::Contains("the loss must be one f32"));
  CHECK_THAT(message_of([&] { step.backward(Tensor::scalar(1.0)); }), Catch::Contains("was not recorded"));
  CHECK_THROWS_AS(step.backward(golden_loss(*toy, 0), -1.0), UserError);
  CHECK(step.micro_batches() == 0);

  CHECK_THAT(message_of([&] { optim::Step(*toy, {}); }), Catch::Contains("no optimizer"));
  CHECK_THAT(message_of([&] {
               optim::Step(*toy, {&sgd, &sgd});
             }),
             Catch::Contains("belongs to two optimizers"));
  optim::Sgd part({toy->parameters()[0]});
  CHECK_THAT(message_of([&] { optim::Step(*toy, {&part}); }), Catch::Contains("no optimizer has bias"));
  CHECK_THAT(message_of([&] { optim::Step(*toy, {&sgd}, {.schedule = optim::constant(0.3)}); }),
             Catch::Contains("sgd has the learning rate 0.1, the schedule 0.3"));
  CHECK_THROWS_AS(optim::Step(*toy, {&sgd}, {.clip_norm = -1.0}), UserError);
  CHECK_THROWS_AS(optim::Step(*toy, {&sgd}, {.accumulate = 0}), UserError);
  CHECK_THROWS_AS(optim::Step(*toy, {&sgd}, {.clip_norm = 1.0, .check_gradients = false}), UserError);
  const auto stranger = weight_and_bias();
  CHECK_THAT(message_of([&] { optim::Step(*stranger, {&sgd}); }),
             Catch::Contains("does not belong to the module"));
  // The failed constructions above took nothing over.
  CHECK_NOTHROW(step.backward(golden_loss(*toy, 0)));
  step.clear();
  const optim::Step later(*toy, {&sgd});
  CHECK_THAT(message_of([&] { step.backward(golden_loss(*toy, 0)); }),
             Catch::Contains("belongs to another step"));

  class Wide : public nn::Module {
   public:
    Wide() { add_parameter("w", Parameter(Tensor::zeros({2}, {.dtype = DType::f64}))); }
    Tensor forward(const Tensor& x) override { return x; }
  } f64;
  optim::Sgd f64_sgd(f64.parameters());
  CHECK_THAT(message_of([&] { optim::Step(f64, {&f64_sgd}); }),
             Catch::Contains("parameter w is f64[2]; masters are f32"));
}

TEST_CASE("a step that cannot be made leaves the one that lives as it was", "[optim]") {
  const auto toy = weight_and_bias();
  const nn::Statistic& running = toy->add_running("mean", {1.0f});
  optim::Adam adam(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&adam}, {.working = DType::f16});
  running.next.data<float>()[0] = 2.0f;
  step.backward(golden_loss(*toy, 0));
  step.apply();
  const auto before = snapshot(step);
  const auto check_unchanged = [&] {
    const auto after = snapshot(step);
    REQUIRE(after.size() == before.size());
    for (std::size_t i = 0; i < before.size(); ++i) CHECK(same_tensor(after[i].second, before[i].second));
    CHECK_NOTHROW(step.buffers().check_attached());
    const Tensor copy = working_copy((*toy)[0], DType::f16);
    CHECK(copy.shares_storage(working_copy((*toy)[1], DType::f16)));
    CHECK(running.live.item() == 2.0);
    step.backward(golden_loss(*toy, 1));
    step.clear();
  };
  // One that has everything a step can have, and memory that is refused at any request.
  optim::LossScaler shared(optim::ScalerOptions{.scope = optim::ScalerScope::optimizer});
  const int scales = shared.count();
  const optim::StepOptions options{.shared_scaler = &shared,
                                   .ema = optim::EmaOptions{},
                                   .working = DType::f16,
                                   .rounding = {.weights = DType::bf16},
                                   .round_statistics = DType::f16};
  std::uint64_t refused = 0;
  for (bool made = false; !made && refused < 100;) {
    INFO("request " << refused);
    host_allocator().refuse_after(refused);
    try {
      const optim::Step other(*toy, {&adam}, options);
      made = true;
    } catch (const VendorError&) {
      ++refused;
    }
    host_allocator().refuse_after({});
    if (made) break;
    check_unchanged();
    CHECK(shared.count() == scales);
  }
  CHECK(refused > 5);
  CHECK(shared.count() == scales + 1);
}

TEST_CASE("a failed backward drops the step", "[optim]") {
  const auto toy = weight_and_bias();
  const nn::Statistic& running = toy->add_running("mean", {1.0f});
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd}, {.accumulate = 2});
  step.backward(golden_loss(*toy, 0));
  running.next.data<float>()[0] = 9.0f;
  CHECK_THROWS_AS(step.backward(Tensor::scalar(1.0)), UserError);
  CHECK(step.micro_batches() == 0);
  CHECK_FALSE((*toy)[0].gradient().defined());
  CHECK(running.next.item() == 1.0);
}
