// One training step of a named workload, driven over standard input by compare.py.
//
// Arguments: WORKLOAD PRECISION THREADS. Commands, one a line: `run N` trains N steps on one synthetic batch
// and answers with the seconds they took and the last loss; `memory` with the peak of resident bytes above
// the process before the model was built; `phases` with the mean milliseconds of each phase; `quit` ends.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "amp/autocast.h"
#include "core/cpu/cpu_features.h"
#include "models/resnet.h"
#include "models/unet.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tandem.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace tandem;

struct Workload {
  std::function<nn::ModulePtr(Index channels, Index classes)> model;
  Shape images;
  Index classes;
  bool by_pixel = false;  // cross entropy and Dice of masks, instead of the cross entropy of labels
};

nn::ModulePtr resnet_of(int depth, Index channels, Index classes) {
  return models::resnet(depth, {.in_channels = channels, .num_classes = classes});
}

const std::map<std::string, Workload> kWorkloads{
    {"resnet20", {[](Index c, Index k) { return resnet_of(20, c, k); }, {128, 28, 28, 1}, 10}},
    {"resnet50", {[](Index c, Index k) { return resnet_of(50, c, k); }, {16, 224, 224, 3}, 1000}},
    {"unet",
     {[](Index c, Index k) -> nn::ModulePtr {
        return std::make_shared<models::UNet>(
            models::UNetOptions{.in_channels = c, .num_classes = k, .width = 16, .levels = 3});
      },
      {16, 64, 64, 1},
      11,
      true}},
};

std::size_t resident(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoull(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

class Trainer {
 public:
  Trainer(const Workload& workload, const amp::Precision& precision)
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

  float step() {
    const auto start = Clock::now();
    Tensor loss;
    Clock::time_point forward, with_loss;
    {
      const amp::Autocast autocast(precision_);
      const Tensor logits = (*model_)(images_);
      forward = Clock::now();
      loss = cross_entropy(logits, labels_);
      if (by_pixel_) loss = loss + dice_loss(logits, labels_);
      with_loss = Clock::now();
    }
    step_.backward(loss);
    const auto backward = Clock::now();
    step_.apply();
    const auto update = Clock::now();
    phases_["forward"] += ms(start, forward);
    phases_["loss"] += ms(forward, with_loss);
    phases_["backward"] += ms(with_loss, backward);
    phases_["update"] += ms(backward, update);
    ++steps_;
    return static_cast<float>(loss.item());
  }

  void print_phases() const {
    std::string separator = "{";
    for (const auto& [name, total] : phases_) {
      std::printf("%s\"%s\": %.4f", separator.c_str(), name.c_str(), total / steps_);
      separator = ", ";
    }
    std::puts("}");
  }
  void forget_phases() {
    phases_.clear();
    steps_ = 0;
  }

 private:
  static double ms(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
  }

  nn::ModulePtr model_;
  bool by_pixel_;
  optim::Sgd optimizer_;
  amp::Plan precision_;
  optim::Step step_;
  Tensor images_, labels_;
  std::map<std::string, double> phases_;
  int steps_ = 0;
};

int serve(const std::string& name, const amp::Precision& precision, int threads) {
  cpu::set_threads(threads);
  const std::size_t baseline = resident("VmRSS:");
  std::ofstream("/proc/self/clear_refs") << '5';  // the peak starts here
  const Workload& workload = kWorkloads.at(name);
  Trainer trainer(workload, precision);
  std::printf("{\"ready\": true, \"items\": %ld}\n", static_cast<long>(workload.images[0]));
  std::fflush(stdout);
  bool first = true;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "run") {
      int steps = 0;
      words >> steps;
      float loss = 0.0f;
      const auto start = Clock::now();
      for (int i = 0; i < steps; ++i) loss = trainer.step();
      const std::chrono::duration<double> seconds = Clock::now() - start;
      std::printf("{\"seconds\": %.6f, \"loss\": %.6f}\n", seconds.count(), static_cast<double>(loss));
      if (std::exchange(first, false)) trainer.forget_phases();  // the warm-up
    } else if (command == "memory") {
      std::printf("{\"peak\": %zu}\n", resident("VmHWM:") - baseline);
    } else if (command == "phases") {
      trainer.print_phases();
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
    std::fprintf(stderr, "usage: bench_worker resnet20|resnet50 fp32|amp_bf16|amp_fp16 THREADS\n");
    return 2;
  }
  try {
    return serve(argv[1], precisions.at(argv[2]), std::stoi(argv[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_worker: %s\n", error.what());
    return 1;
  }
}
