// One training step of a named workload, driven over standard input by compare.py.
//
// Arguments: WORKLOAD PRECISION THREADS. Commands, one a line: `run N` trains N steps on one synthetic batch
// and answers with the seconds they took and the losses of the last (two networks have one each); `memory`
// with the peak of resident bytes above the process before the model was built; `phases` with the mean
// milliseconds of each phase; `quit` ends.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "core/cpu/cpu_features.h"
#include "models/dcgan.h"
#include "models/resnet.h"
#include "models/unet.h"
#include "nn/scopes.h"
#include "optim/adam.h"
#include "optim/loss_scaler.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tandem.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace tandem;

std::size_t resident(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoull(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

// Mean milliseconds of the phases of a step.
class Phases {
 public:
  void begin() { last_ = Clock::now(); }
  // What happened since begin() or since the last phase ended.
  void finish(const char* phase) {
    const auto now = Clock::now();
    total_[phase] += std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
  }
  void end_step() { ++steps_; }
  void forget() {
    total_.clear();
    steps_ = 0;
  }
  void print() const {
    std::string separator = "{";
    for (const auto& [phase, total] : total_) {
      std::printf("%s\"%s\": %.4f", separator.c_str(), phase.c_str(), total / steps_);
      separator = ", ";
    }
    std::puts("}");
  }

 private:
  Clock::time_point last_;
  std::map<std::string, double> total_;
  int steps_ = 0;
};

class Training {
 public:
  virtual ~Training() = default;
  // Returns the losses, one for each network that learns.
  virtual std::vector<double> step() = 0;
  virtual Index items() const = 0;  // images that a step sees

  Phases phases;
};

struct Supervised {
  std::function<nn::ModulePtr(Index channels, Index classes)> model;
  Shape images;
  Index classes;
  bool by_pixel = false;  // cross entropy and Dice of masks, instead of the cross entropy of labels
};

class SupervisedTraining final : public Training {
 public:
  SupervisedTraining(const Supervised& workload, const amp::Precision& precision)
      : model_(workload.model(workload.images[3], workload.classes)),
        by_pixel_(workload.by_pixel),
        optimizer_(model_->parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4}),
        precision_(precision),
        step_(*model_, {&optimizer_}, amp::step_options(precision)),
        images_(Tensor::empty(workload.images)) {
    backend_for({}).random_normal({.seed = 1}, images_, 0.0, 1.0);
    const Shape targets = by_pixel_ ? workload.images.without(3) : Shape{workload.images[0]};
    std::vector<std::int64_t> labels(static_cast<std::size_t>(targets.numel()));
    RandomStream random({.seed = 2});
    for (auto& label : labels) label = random.below(static_cast<std::uint32_t>(workload.classes));
    labels_ = by_pixel_ ? Tensor::from(std::vector<std::uint8_t>(labels.begin(), labels.end()), targets)
                        : Tensor::from(labels, targets);
  }

  std::vector<double> step() override {
    phases.begin();
    Tensor loss;
    {
      const amp::Autocast autocast(precision_);
      const Tensor logits = (*model_)(images_);
      phases.finish("forward");
      loss = cross_entropy(logits, labels_);
      if (by_pixel_) loss = loss + dice_loss(logits, labels_);
      phases.finish("loss");
    }
    step_.backward(loss);
    phases.finish("backward");
    step_.apply();
    phases.finish("update");
    phases.end_step();
    return {loss.item()};
  }
  Index items() const override { return images_.size(0); }

 private:
  nn::ModulePtr model_;
  bool by_pixel_;
  optim::Sgd optimizer_;
  amp::Plan precision_;
  optim::Step step_;
  Tensor images_, labels_;
};

// An iteration of the task "gan" (docs/gan.md): the discriminator's phase and the generator's, both with
// images of the same z, and either leaves the other network as it is.
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
    backend_for({}).random_uniform({.seed = 1}, real_, -1.0, 1.0);
  }

  std::vector<double> step() override {
    phases.begin();
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
      phases.finish("loss");
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
    phases.finish("update");
    phases.end_step();
    ++iteration_;
    return {of_discriminator.item(), of_generator.item()};
  }
  Index items() const override { return real_.size(0); }

 private:
  static constexpr std::uint64_t kSeed = 2;
  static inline const optim::AdamOptions kAdam{.lr = 2e-4, .beta1 = 0.5, .beta2 = 0.999};

  optim::StepOptions sharing_scaler(const amp::Precision& precision) {
    optim::StepOptions options = amp::step_options(precision);
    options.shared_scaler = &scaler_;
    return options;
  }
  // The same within an iteration.
  Tensor made() {
    const RandomScope random(kSeed, iteration_, 0);
    return pair_.generator()(random_normal({real_.size(0), 1, 1, pair_.options().noise}));
  }
  Tensor judged(const Tensor& images, double as) {
    const Tensor logits = pair_.discriminator()(images);
    phases.finish("forward");
    const Tensor loss = bce_with_logits(logits, Tensor::full(logits.shape(), as));
    phases.finish("loss");
    return loss;
  }
  void learn(optim::Step& step, const Tensor& loss) {
    step.backward(loss);
    phases.finish("backward");
    step.apply();
    phases.finish("update");
  }

  models::Dcgan pair_;
  optim::Adam discriminator_adam_, generator_adam_;
  amp::Plan precision_;
  optim::LossScaler scaler_;
  optim::Step discriminator_step_, generator_step_;
  Tensor real_;
  std::uint32_t iteration_ = 0;
};

nn::ModulePtr resnet_of(int depth, Index channels, Index classes) {
  return models::resnet(depth, {.in_channels = channels, .num_classes = classes});
}

using Make = std::function<std::unique_ptr<Training>(const amp::Precision&)>;

Make supervised(const Supervised& workload) {
  return [workload](const amp::Precision& precision) {
    return std::make_unique<SupervisedTraining>(workload, precision);
  };
}

const std::map<std::string, Make> kWorkloads{
    {"resnet20", supervised({[](Index c, Index k) { return resnet_of(20, c, k); }, {128, 28, 28, 1}, 10})},
    {"resnet50", supervised({[](Index c, Index k) { return resnet_of(50, c, k); }, {16, 224, 224, 3}, 1000})},
    {"unet", supervised({[](Index c, Index k) -> nn::ModulePtr {
                           return std::make_shared<models::UNet>(models::UNetOptions{
                               .in_channels = c, .num_classes = k, .width = 16, .levels = 3});
                         },
                         {16, 64, 64, 1},
                         11,
                         true})},
    {"dcgan",
     [](const amp::Precision& precision) {
       return std::make_unique<GanTraining>(
           models::DcganOptions{.image_size = 32, .channels = 1, .noise = 100, .width = 32}, 64, precision);
     }},
};

int serve(const std::string& name, const amp::Precision& precision, int threads) {
  cpu::set_threads(threads);
  const std::size_t baseline = resident("VmRSS:");
  std::ofstream("/proc/self/clear_refs") << '5';  // the peak starts here
  const std::unique_ptr<Training> training = kWorkloads.at(name)(precision);
  std::printf("{\"ready\": true, \"items\": %ld}\n", static_cast<long>(training->items()));
  std::fflush(stdout);
  bool first = true;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "run") {
      int steps = 0;
      words >> steps;
      std::vector<double> losses;
      const auto start = Clock::now();
      for (int i = 0; i < steps; ++i) losses = training->step();
      const std::chrono::duration<double> seconds = Clock::now() - start;
      std::string text;
      for (const double loss : losses) text += (text.empty() ? "" : ", ") + std::to_string(loss);
      std::printf("{\"seconds\": %.6f, \"losses\": [%s]}\n", seconds.count(), text.c_str());
      if (std::exchange(first, false)) training->phases.forget();  // the warm-up
    } else if (command == "memory") {
      std::printf("{\"peak\": %zu}\n", resident("VmHWM:") - baseline);
    } else if (command == "phases") {
      training->phases.print();
    } else {
      break;
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, amp::Precision> precisions{{"fp32", amp::Precision::fp32()},
                                                         {"amp_bf16", amp::Precision::amp_bf16()},
                                                         {"amp_fp16", amp::Precision::amp_fp16()}};
  if (argc != 4 || !kWorkloads.contains(argv[1]) || !precisions.contains(argv[2])) {
    std::string names;
    for (const auto& [name, make] : kWorkloads) names += (names.empty() ? "" : "|") + name;
    std::fprintf(stderr, "usage: bench_worker %s fp32|amp_bf16|amp_fp16 THREADS\n", names.c_str());
    return 2;
  }
  try {
    return serve(argv[1], precisions.at(argv[2]), std::stoi(argv[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_worker: %s\n", error.what());
    return 1;
  }
}
