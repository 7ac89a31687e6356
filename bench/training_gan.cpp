#include "bench/training.h"
#include "core/kernels/random.h"
#include "models/dcgan.h"
#include "nn/scopes.h"
#include "optim/adam.h"
#include "optim/loss_scaler.h"
#include "optim/step.h"
#include "tandem.h"

namespace tandem::bench {

namespace {

using train::Stage;

// An iteration of the task "gan" (docs/gan.md): phases of discriminator and generator with images of the same
// z; each updates only its network.
class GanTraining final : public Training {
 public:
  GanTraining(const models::DcganOptions& options, Index batch, const amp::Precision& precision)
      : pair_(options),
        discriminator_adam_(pair_.discriminator().parameters(), kAdam),
        generator_adam_(pair_.generator().parameters(), kAdam),
        precision_(precision),
        scaler_(amp::step_options(precision).scaler),
        discriminator_step_(pair_.discriminator(), {&discriminator_adam_}, sharing_scaler(precision)),
        generator_step_(pair_.generator(), {&generator_adam_}, sharing_scaler(precision)),
        real_(Tensor::empty({batch, options.image_size, options.image_size, options.channels})) {
    backend_for({}).random().random_uniform({.seed = 1}, real_, -1.0, 1.0);
  }

  std::vector<double> step() override {
    stages.start();
    Tensor of_discriminator, of_generator;
    {
      const amp::Autocast autocast(precision_);
      of_discriminator = judged(real_, 1.0);
      const Tensor images = [&] {
        const NoGrad no_grad;
        const nn::KeepStatistics keep(pair_.generator());
        return made();
      }();
      of_discriminator = of_discriminator + judged(images, 0.0);
      stages.finish(Stage::loss);
    }
    learn(discriminator_step_, of_discriminator);
    {
      const amp::Autocast autocast(precision_);
      const Tensor images = made();
      const nn::Frozen frozen(pair_.discriminator());
      const nn::KeepStatistics keep(pair_.discriminator());
      of_generator = judged(images, 1.0);
    }
    learn(generator_step_, of_generator);
    scaler_.update();
    stages.finish(Stage::update);
    ++iteration_;
    return {of_discriminator.item(), of_generator.item()};
  }
  Index items() const override { return real_.size(0); }
  std::int64_t update_bytes() const override {
    return (discriminator_step_.update_bytes() + generator_step_.update_bytes()) / 2;
  }

 private:
  static constexpr std::uint64_t kSeed = 2;
  static inline const optim::AdamOptions kAdam{.lr = 2e-4, .beta1 = 0.5, .beta2 = 0.999};

  optim::StepOptions sharing_scaler(const amp::Precision& precision) {
    optim::StepOptions options = amp::step_options(precision);
    options.shared_scaler = &scaler_;
    return options;
  }
  // Constant within an iteration.
  Tensor made() {
    const RandomScope random(kSeed, iteration_, 0);
    return pair_.generator()(random_normal({real_.size(0), 1, 1, pair_.options().noise}));
  }
  Tensor judged(const Tensor& images, double as) {
    const Tensor logits = pair_.discriminator()(images);
    stages.finish(Stage::forward);
    const Tensor loss = bce_with_logits(logits, Tensor::full(logits.shape(), as));
    stages.finish(Stage::loss);
    return loss;
  }
  void learn(optim::Step& step, const Tensor& loss) {
    step.backward(loss);
    stages.finish(Stage::backward);
    stages.begin(Stage::update);
    step.apply();
    stages.finish(Stage::update);
  }

  models::Dcgan pair_;
  optim::Adam discriminator_adam_, generator_adam_;
  amp::ResolvedPrecision precision_;
  optim::LossScaler scaler_;
  optim::Step discriminator_step_, generator_step_;
  Tensor real_;
  std::uint32_t iteration_ = 0;
};

}  // namespace

TrainingPtr gan(const amp::Precision& precision) {
  return std::make_unique<GanTraining>(
      models::DcganOptions{.image_size = 32, .channels = 1, .noise = 100, .width = 32}, 64, precision);
}

}  // namespace tandem::bench
