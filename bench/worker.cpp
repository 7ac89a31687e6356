// One training step of a named workload, driven over standard input by compare.py.
//
// Arguments: WORKLOAD PRECISION THREADS. Commands, one a line: `run N` trains N steps on one synthetic batch
// and answers with the seconds they took and the losses of the last (two networks have one each); `memory`
// with the peak of resident bytes above the process before the model was built; `phases` with the mean
// milliseconds of each phase; `limits` measures the device's rates, in GFLOP/s and GB/s, with memory that
// shows in `memory` from then on; `roofline` says what a step must compute and move (GFLOP, GB), and how many
// milliseconds that takes at the rates measured last, op by op the longer of the two; `quit` ends.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
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
#include "studies/profile/limits.h"
#include "studies/profile/recorder.h"
#include "tandem.h"
#include "train/stages.h"

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using namespace tandem;
using train::Stage;

std::size_t resident(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoull(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

class Training {
 public:
  virtual ~Training() = default;
  // Returns the losses, one for each network that learns.
  virtual std::vector<double> step() = 0;
  virtual Index items() const = 0;  // images that a step sees
  // That an update moves, see optim::Step; the mean of several.
  virtual std::int64_t update_bytes() const = 0;

  train::StageTimer stages;
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
    stages.start();
    Tensor loss;
    {
      const amp::Autocast autocast(precision_);
      const Tensor logits = (*model_)(images_);
      stages.finish(Stage::forward);
      loss = cross_entropy(logits, labels_);
      if (by_pixel_) loss = loss + dice_loss(logits, labels_);
      stages.finish(Stage::loss);
    }
    step_.backward(loss);
    stages.finish(Stage::backward);
    stages.begin(Stage::update);
    step_.apply();
    stages.finish(Stage::update);
    return {loss.item()};
  }
  Index items() const override { return images_.size(0); }
  std::int64_t update_bytes() const override { return step_.update_bytes(); }

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
  // The same within an iteration.
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

Json by_type(const std::vector<std::pair<DType, double>>& rates) {
  Json json = Json::object();
  for (const auto& [dtype, rate] : rates) json[std::string(name_of(dtype))] = 1e-9 * rate;
  return json;
}

// Trains for whoever asks.
class Server {
 public:
  explicit Server(const std::function<std::unique_ptr<Training>()>& make) : baseline_(resident("VmRSS:")) {
    std::ofstream("/proc/self/clear_refs") << '5';  // the peak starts here
    training_ = make();
  }

  Json hello() const { return {{"ready", true}, {"items", training_->items()}}; }

  // Empty for what is no command.
  Json answer(const std::string& command, int steps) {
    if (command == "run") return run(steps);
    if (command == "memory") return {{"peak", resident("VmHWM:") - baseline_}};
    if (command == "phases") return phases();
    if (command == "limits") return limits();
    if (command == "roofline") return roofline();
    return {};
  }

 private:
  Json run(int steps) {
    std::vector<double> losses;
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) losses = training_->step();
    const std::chrono::duration<double> seconds = Clock::now() - start;
    steps_ += steps;
    if (std::exchange(warming_up_, false)) {
      training_->stages.clear();
      steps_ = 0;
    }
    return {{"seconds", seconds.count()}, {"losses", losses}};
  }

  Json phases() const {
    Json json = Json::object();
    for (const Stage stage : {Stage::forward, Stage::loss, Stage::backward, Stage::update})
      json[train::kStageNames[static_cast<std::size_t>(stage)]] =
          1e3 * training_->stages.seconds(stage) / std::max(steps_, 1);
    return json;
  }

  Json limits() {
    static constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
    limits_ = profile::measured_limits(backend_for({}), kTypes);
    return {{"copy", 1e-9 * limits_.bytes_per_second},
            {"elementwise", by_type(limits_.elementwise)},
            {"products", by_type(limits_.products)},
            {"convolutions", by_type(limits_.convolutions)}};
  }

  // Of a step of its own, whose phases nobody asks for.
  Json roofline() {
    if (limits_.products.empty()) limits();
    profile::Recorder recorder(backend_for({}), training_->update_bytes());
    const train::StageTimer before = training_->stages;
    training_->stages.set_observer(&recorder);
    recorder.begin_step();
    {
      const ObserverScope observed(recorder);
      training_->step();
    }
    recorder.end_step();
    training_->stages = before;
    // The fastest way through memory is the ceiling, whichever it was.
    profile::Limits ceiling = limits_;
    for (const auto& [dtype, rate] : limits_.elementwise)
      ceiling.bytes_per_second = std::max(ceiling.bytes_per_second, rate);
    double seconds = 0.0, bytes = 0.0, of_update = 0.0, flop = 0.0;
    for (const profile::Call& call : recorder.calls()) {
      if (call.part_of >= 0) continue;  // counted in the whole
      seconds += ceiling.bound(call.bytes, call.flop, call.operands);
      bytes += static_cast<double>(call.bytes);
      if (call.direction == profile::Direction::update) of_update += static_cast<double>(call.bytes);
      flop += static_cast<double>(call.flop);
    }
    return {{"gflop", 1e-9 * flop},
            {"gbytes", 1e-9 * bytes},
            {"update_gbytes", 1e-9 * of_update},
            {"bound_ms", 1e3 * seconds}};
  }

  std::size_t baseline_;
  std::unique_ptr<Training> training_;
  profile::Limits limits_;
  int steps_ = 0;  // since the warm-up, which is the first run
  bool warming_up_ = true;
};

int serve(const std::string& name, const amp::Precision& precision, int threads) {
  cpu::set_threads(threads);
  Server server([&] { return kWorkloads.at(name)(precision); });
  const auto print = [](const Json& json) {
    std::puts(json.dump().c_str());
    std::fflush(stdout);
  };
  print(server.hello());
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    int steps = 0;
    words >> command >> steps;
    const Json answer = server.answer(command, steps);
    if (answer.is_null()) break;
    print(answer);
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
