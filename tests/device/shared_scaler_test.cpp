// Two networks with a step each and one loss scaler: recorded steps give the bits of ordinary ones, one step
// is skipped alone, and each step's recordings read the other's results.
#include <cmath>

#include "amp/autocast.h"
#include "amp/precision.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "core/backend.h"
#include "core/error.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/recorded_step.h"
#include "optim/step.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

Backend& device() { return backend_for(test_device()); }

constexpr Index kBatch = 6, kNoise = 8, kData = 12;

nn::ModulePtr network(Index in, Index out, std::uint64_t seed) {
  const RandomScope random(seed, 0, 0);
  auto model = std::make_shared<nn::Sequential>();
  model->add(std::make_shared<nn::Linear>(in, 16));
  model->add(std::make_shared<nn::BatchNorm>(16));
  model->add(std::make_shared<nn::Dropout>(0.2));
  model->add(std::make_shared<nn::Linear>(16, out));
  model->to(test_device());
  return model;
}

struct Settings {
  amp::Precision precision = amp::Precision::amp_fp16();
  optim::ScalerScope scope = optim::ScalerScope::global;
  double initial = 0x1p16;
  bool two_losses = false;  // of the critic, with a scale each; no shared scaler then
};

// An iteration: the critic learns of real data and of what the generator makes, then the generator learns of
// the critic.
class Adversaries {
 public:
  Adversaries(const Settings& settings, bool records)
      : plan(settings.precision),
        two_losses(settings.two_losses),
        scaler(scaler_options(settings), test_device()),
        critic_step(*critic, {&critic_adam}, options(settings, settings.two_losses)),
        generator_step(*generator, {&generator_adam}, options(settings, false)),
        records_(records && device().records()) {}

  void iterate(int n, double loudness = 1.0) {
    device().copy_bytes(random_tensor({kBatch, kData}, DType::f32, 100 + n), real);
    device().copy_bytes(Tensor::full({}, loudness, {.device = test_device()}), loud);
    device().copy_bytes(random_tensor({kBatch, kNoise}, DType::f32, 200 + n), noise);
    turn_critic(n);
    turn_generator(n);
    if (!two_losses) scaler.update();
  }

  void turn_critic(int n) {
    if (two_losses) {
      run(critic_step, work[0], n, 0, false, [&] { return loss_of_real(); });
      run(critic_step, work[1], n, 1, true, [&] { return loss_of_fake(); });
    } else {
      run(critic_step, work[0], n, 0, true, [&] { return add(loss_of_real(), loss_of_fake()); });
    }
  }

  void turn_generator(int n) {
    critic->freeze("", true);
    run(generator_step, work[2], n, 0, true, [&] { return bce_with_logits((*critic)(fake()), ones); });
    critic->freeze("", false);
  }

  // Everything, by name.
  std::vector<std::pair<std::string, std::vector<double>>> state() {
    std::vector<std::pair<std::string, std::vector<double>>> all;
    const auto add = [&](const std::vector<optim::NamedTensor>& part) {
      for (const auto& [name, tensor] : part) all.emplace_back(name, tensor.to_vector<double>());
    };
    add(critic_step.state("critic."));
    add(generator_step.state("generator."));
    add(scaler.state());
    return all;
  }
  std::vector<optim::NamedTensor> snapshot() {
    std::vector<optim::NamedTensor> all;
    for (const auto& part :
         {critic_step.state("critic."), generator_step.state("generator."), scaler.state()})
      for (const auto& [name, tensor] : part) all.emplace_back(name, tensor.clone());
    return all;
  }
  void load(const std::vector<optim::NamedTensor>& state) {
    scaler.load_state(state);
    critic_step.load_state(state, "critic.");
    generator_step.load_state(state, "generator.");
  }
  bool recorded() const { return work[0].apply || work[1].apply; }

  nn::ModulePtr critic = network(kData, 1, 1), generator = network(kNoise, kData, 2);
  amp::ResolvedPrecision plan;
  bool two_losses;
  optim::Adam critic_adam{critic->parameters(), {.lr = 0.01}},
      generator_adam{generator->parameters(), {.lr = 0.01}};
  optim::LossScaler scaler;
  optim::Step critic_step, generator_step;

 private:
  struct Work {
    std::unique_ptr<optim::RecordedBackward> backward;
    std::unique_ptr<optim::RecordedApply> apply;
  };

  static optim::ScalerOptions scaler_options(const Settings& settings) {
    optim::ScalerOptions options = amp::step_options(settings.precision).scaler;
    options.initial = settings.initial;
    options.interval = 3;
    options.scope = settings.scope;
    return options;
  }
  optim::StepOptions options(const Settings& settings, bool per_loss) {
    optim::StepOptions options = amp::step_options(settings.precision);
    options.ema = optim::EmaOptions{.decay = 0.5};
    options.shared_scaler = settings.two_losses ? nullptr : &scaler;
    options.scaler = scaler_options(settings);
    if (per_loss) options.scaler.scope = optim::ScalerScope::loss;
    if (per_loss) options.scaler.losses = 2;
    return options;
  }

  Tensor fake() { return (*generator)(noise); }
  Tensor loss_of_real() { return mul(bce_with_logits((*critic)(real), ones), loud); }
  Tensor loss_of_fake() { return bce_with_logits((*critic)(fake().detach()), zeros); }

  // The first three iterations are ordinary.
  template <class Loss>
  void run(optim::Step& step, Work& work, int n, int loss_index, bool ends, Loss&& loss_of) {
    const auto forward = [&] {
      const RandomScope random(7, 0, static_cast<std::uint32_t>(loss_index), step.random_counter());
      const amp::Autocast autocast(plan);
      return loss_of();
    };
    if (!records_ || n < 3) {
      step.backward(forward(), kBatch, loss_index);
    } else if (!work.backward) {
      work.backward = step.record_backward(forward, kBatch, loss_index);
    } else {
      step.backward(*work.backward);
    }
    if (!ends) return;
    if (!records_ || n < 3) {
      step.apply();
    } else if (!work.apply) {
      work.apply = step.record_apply();
    } else {
      step.apply(*work.apply);
    }
  }

  bool records_;
  Work work[3];
  Tensor real = Tensor::zeros({kBatch, kData}, {.device = test_device()}),
         noise = Tensor::zeros({kBatch, kNoise}, {.device = test_device()}),
         loud = Tensor::full({}, 1.0, {.device = test_device()}),
         ones = Tensor::full({kBatch, 1}, 1.0, {.device = test_device()}),
         zeros = Tensor::zeros({kBatch, 1}, {.device = test_device()});
};

void check_same(Adversaries& a, Adversaries& b) {
  const auto first = a.state(), second = b.state();
  REQUIRE(first.size() == second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    INFO(first[i].first);
    CHECK(first[i].first == second[i].first);
    REQUIRE(first[i].second.size() == second[i].second.size());
    bool same = true;
    for (std::size_t k = 0; k < first[i].second.size(); ++k) {
      const double x = first[i].second[k], y = second[i].second[k];
      same = same && (x == y || (std::isnan(x) && std::isnan(y)));
    }
    CHECK(same);
  }
}

}  // namespace

TEST_CASE("steps that share a scaler are recorded with the bits of ordinary ones", "[device][recording]") {
  for (const Settings& settings :
       {Settings{}, Settings{.scope = optim::ScalerScope::optimizer}, Settings{.two_losses = true},
        Settings{.precision = amp::Precision::amp_bf16(), .initial = 1.0}, Settings{.initial = 0x1p24}}) {
    CAPTURE(name_of(settings.precision.dtype), settings.two_losses, settings.initial);
    Adversaries ordinary(settings, false), recorded(settings, true);
    for (int n = 0; n < 12; ++n) {
      CAPTURE(n);
      // Once so loud a loss that the critic's gradients overflow, and the generator's do not.
      const double loudness = n == 8 && settings.precision.dtype == DType::f16 ? 0x1p16 : 1.0;
      ordinary.iterate(n, loudness);
      recorded.iterate(n, loudness);
      const auto critic = recorded.critic_step.synchronize(),
                 generator = recorded.generator_step.synchronize();
      CHECK(critic.skip == ordinary.critic_step.synchronize().skip);
      CHECK(generator.skip == ordinary.generator_step.synchronize().skip);
      if (loudness > 1.0) {
        CHECK(critic.skip);
        CHECK_FALSE(generator.skip);
      }
      check_same(recorded, ordinary);
    }
    CHECK(recorded.recorded() == device().records());
    CHECK(recorded.generator_step.synchronize().applied > 5);
  }
}

TEST_CASE("recordings read what another step's masters became behind their back", "[device][recording]") {
  Adversaries ordinary({}, false), recorded({}, true);
  std::vector<optim::NamedTensor> early;
  for (int n = 0; n < 9; ++n) {
    CAPTURE(n);
    if (n == 2) early = ordinary.snapshot();
    if (n == 6) {  // an evaluation with averages, which gives the masters back
      for (Adversaries* both : {&ordinary, &recorded}) {
        const optim::Ema::Scope scope(*both->generator_step.ema());
        if (both == &ordinary) continue;
        // Whoever reads a copy of an average leaves it for the next reader.
        const nn::ModeScope evaluation(*both->generator, false);
        const amp::Autocast autocast(both->plan);
        (*both->generator)(Tensor::zeros({2, kNoise}, {.device = test_device()}));
      }
    }
    if (n == 7) {
      ordinary.load(early);
      recorded.load(early);
    }
    ordinary.iterate(n);
    recorded.iterate(n);
    check_same(recorded, ordinary);
  }
}

TEST_CASE("a recording that fails leaves other steps' networks as they were", "[device][recording]") {
  if (!device().records()) return;
  Adversaries plain({}, false), tried({}, false);
  const auto early = plain.snapshot();
  for (int n = 0; n < 3; ++n) {
    plain.iterate(n);
    tried.iterate(n);
  }
  for (Adversaries* both : {&plain, &tried}) both->load(early);  // the copies are to be renewed
  const Tensor noise = Tensor::zeros({kBatch, kNoise}, {.device = test_device()});
  const auto failing = [&]() -> Tensor {
    const RandomScope random(7, 0, 0, tried.critic_step.random_counter());
    const amp::Autocast autocast(tried.plan);
    (*tried.critic)((*tried.generator)(noise).detach());
    throw UserError("test", "given up");
  };
  CHECK_FAILS(UserError, tried.critic_step.record_backward(failing, kBatch), "given up");
  for (int n = 3; n < 6; ++n) {
    plain.iterate(n);
    tried.iterate(n);
    check_same(tried, plain);
  }
}
