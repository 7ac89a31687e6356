// Two networks in one loop: a frozen one that keeps its statistics, working copies, both steps and their
// shared scaler.
#include <catch2/catch.hpp>

#include "amp/autocast.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/random.h"
#include "autograd/ops/reduce.h"
#include "core/error.h"
#include "nn/layers.h"
#include "nn/scopes.h"
#include "optim/adam.h"
#include "optim/step.h"
#include "tests/support/tensors.h"

using namespace tandem;
using amp::Autocast;
using amp::Precision;
using test::random_tensor;

namespace {

constexpr Index kBatch = 8, kNoise = 6;

using Values = std::vector<std::vector<double>>;

struct Networks {
  std::shared_ptr<nn::Sequential> maker = std::make_shared<nn::Sequential>(),
                                  critic = std::make_shared<nn::Sequential>();
  Networks() {
    const RandomScope scope(3, 0, 0);
    nn::ConvTransposeOptions up;
    up.stride = {2, 2};
    up.padding = {1, 1};
    up.bias = false;
    maker->add(std::make_shared<nn::Linear>(kNoise, 64))
        .add(std::make_shared<nn::Reshape>(std::vector<Index>{2, 2, 16}))
        .add(std::make_shared<nn::BatchNorm>(16, nn::BatchNormLayerOptions{.relu = true}))
        .add(std::make_shared<nn::ConvTranspose2d>(16, 1, std::array<Index, 2>{4, 4}, up))
        .add(std::make_shared<nn::Tanh>());
    critic->add(std::make_shared<nn::Conv2d>(1, 16, 4, nn::ConvOptions{.stride = {2, 2}, .padding = {1, 1}}))
        .add(std::make_shared<nn::BatchNorm>(16))
        .add(std::make_shared<nn::LeakyRelu>(0.2))
        .add(std::make_shared<nn::Flatten>())
        .add(std::make_shared<nn::Linear>(64, 1));
  }
};

Tensor noise(std::uint32_t step) {
  const RandomScope scope(11, step, 0);
  return random_normal({kBatch, kNoise});
}

Tensor judged(const Tensor& score, double as) {
  return bce_with_logits(score, Tensor::full(score.shape(), as));
}

Values values_of(const nn::Module& module) {
  Values all;
  for (const Parameter& p : module.parameters()) all.push_back(p.value().to_vector<double>());
  for (const nn::Statistic& s : module.statistics()) {
    all.push_back(s.live.to_vector<double>());
    all.push_back(s.next.to_vector<double>());
  }
  return all;
}

enum class Way { by_scopes, by_hand, unprotected };

// Trains both and gives the values of both at the end. By hand: the critic's gradients and statistics are put
// back after each pass of the other's.
std::pair<Values, Values> train(const Precision& precision, Way way) {
  Networks n;
  optim::LossScaler scaler(precision.scaler);
  optim::Adam adam_m(n.maker->parameters(), {.lr = 2e-3, .beta1 = 0.5}),
      adam_c(n.critic->parameters(), {.lr = 2e-3, .beta1 = 0.5});
  optim::StepOptions options{.shared_scaler = &scaler};
  if (precision.lowers()) options.working = precision.dtype;
  optim::Step maker(*n.maker, {&adam_m}, options), critic(*n.critic, {&adam_c}, options);
  const Tensor real = random_tensor({kBatch, 4, 4, 1}, DType::f32, 5);
  for (std::uint32_t t = 0; t < 4; ++t) {
    const Tensor z = noise(t);
    Tensor loss, of_made;
    {
      const Autocast autocast(precision);
      const nn::KeepStatistics keep(*n.maker);
      const Tensor made = [&] {
        const NoGrad no_grad;
        return (*n.maker)(z);
      }();
      loss = judged((*n.critic)(real), 1.0);
      of_made = judged((*n.critic)(made), 0.0);
    }
    critic.backward(add(loss, of_made));  // outside: O2 adds in 16 bits
    critic.apply();
    {
      const Autocast autocast(precision);
      std::optional<nn::Frozen> frozen;
      std::optional<nn::KeepStatistics> keep;
      if (way == Way::by_scopes) {
        frozen.emplace(*n.critic);
        keep.emplace(*n.critic);
        for (const Parameter& p : n.critic->parameters()) {
          CHECK_FALSE(p.tensor().requires_grad());
          if (!precision.lowers() || p.value().rank() < 2) continue;
          const Tensor copy = working_copy(p, precision.dtype);
          CHECK(copy.shares_storage(working_copy(p.value(), precision.dtype)));
          CHECK_FALSE(copy.requires_grad());
        }
      }
      loss = judged((*n.critic)((*n.maker)(z)), 1.0);
    }
    maker.backward(loss);
    maker.apply();
    scaler.update();
    for (const Parameter& p : n.critic->parameters())
      CHECK(p.gradient().defined() == (way != Way::by_scopes));
    if (way == Way::by_hand) critic.clear();
  }
  return {values_of(*n.maker), values_of(*n.critic)};
}

}  // namespace

TEST_CASE("a critic frozen by scope and one that is put back by hand train the same networks", "[scopes]") {
  for (const Precision& precision : {Precision::fp32(), Precision::amp_fp16(), Precision::amp_bf16(),
                                     Precision::o2(DType::bf16), Precision::o3(DType::bf16)}) {
    INFO("O" << static_cast<int>(precision.level) << " " << name_of(precision.dtype));
    const auto by_scopes = train(precision, Way::by_scopes);
    CHECK(by_scopes == train(precision, Way::by_hand));
  }
  Precision rounding = Precision::amp_fp16();
  rounding.round_weight_gradients = true;  // weights are cast on the tape instead of copied
  CHECK(train(rounding, Way::by_scopes) == train(rounding, Way::by_hand));
}

TEST_CASE("control: without the scope the critic's step refuses what the other's backward left", "[scopes]") {
  CHECK_THROWS_WITH(train(Precision::fp32(), Way::unprotected),
                    Catch::Contains("has a gradient that does not come from Step::backward"));
}
