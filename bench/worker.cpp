// Benchmark worker: training steps of a workload, or steps of a part (bench/parts.h), driven by compare.py
// over standard input.
//
// Arguments: WORKLOAD PRECISION THREADS. Commands, one per line:
// - `first`: trains the first step; answers with its losses, one per network
// - `run N`: trains N steps on one synthetic batch; answers with the seconds and the last losses
// - `memory`: answers with the peak of resident bytes above the process before the model was built
// - `phases`: answers with the mean milliseconds of each phase
// - `limits`: measures the device's rates in GFLOP/s and GB/s; `memory` then includes the memory for it
// - `roofline`: answers with computation and memory traffic of a step (GFLOP, GB), and its milliseconds at
//   the last measured limits: for each op the longer of both times
// - `profile N`: answers with the profile of N steps (as `tandem bench --profile --json`); `phases` does not
//   count them
// - `quit`
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
#include <utility>
#include <vector>

#include "bench/parts.h"
#include "bench/training.h"
#include "core/cpu/cpu_features.h"
#include "models/resnet.h"
#include "models/unet.h"
#include "models/vit.h"
#include "samples/register.h"
#include "studies/profile/limits.h"
#include "studies/profile/profile.h"
#include "studies/profile/recorder.h"
#include "tandem.h"

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using namespace tandem;
using namespace tandem::bench;
using train::Stage;

std::size_t resident(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoull(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

nn::ModulePtr resnet_of(int depth, Index channels, Index classes) {
  return models::resnet(depth, {.in_channels = channels, .num_classes = classes});
}

using Make = std::function<TrainingPtr(const amp::Precision&)>;

Make on_images(const Supervised& workload) {
  return [workload](const amp::Precision& precision) { return supervised(workload, precision); };
}

Make on_objects(const Detection& workload) {
  return [workload](const amp::Precision& precision) { return detection(workload, precision); };
}

Make on_texts(TrainingPtr (*make)(const Texts&, const amp::Precision&), const Texts& workload) {
  return [make, workload](const amp::Precision& precision) { return make(workload, precision); };
}

Make on_pairs(const nlohmann::json& model) {
  return [model](const amp::Precision& precision) { return translation(model, precision); };
}

Make on_patches(const models::VitOptions& options, Index batch) {
  const auto model = [options](Index, Index) { return std::make_shared<models::Vit>(options); };
  return on_images({.model = model,
                    .images = {batch, options.image[0], options.image[1], options.in_channels},
                    .classes = options.num_classes,
                    .adamw = true});
}

Make part(TrainingPtr (*make)()) {
  return [make](const amp::Precision&) { return make(); };
}

// Anchors are clipped as in torchvision.
const nlohmann::json kSmallSsd{{"name", "ssd_small"}, {"clip", "wh"}},
    kSsd300{{"name", "ssd300_resnet34"}, {"clip", "wh"}}, kSsdLite{{"name", "ssdlite320_mobilenet_v3"}};

// As in configs/translate_de.json and transformer_translate_de.json.
const nlohmann::json kGnmt{
    {"name", "encoder_decoder"}, {"embedding", 256}, {"units", 256}, {"encoder_layers", 2},
    {"decoder_layers", 2},       {"dropout", 0.3},   {"tied", true}, {"init", 0.1}},
    kTranslator{{"name", "transformer"}, {"encoder_layers", 3}, {"decoder_layers", 3},
                {"width", 256},          {"heads", 4},          {"inner", 1024},
                {"dropout", 0.3}};

nlohmann::json transformer(const char* name, Index layers, Index width, Index heads, Index context) {
  return {{"name", name}, {"num_layers", layers}, {"width", width}, {"heads", heads}, {"context", context}};
}

// As in configs/gpt2_small_char.json.
nlohmann::json gpt_of_characters(Index layers, Index width, Index heads, Index context) {
  nlohmann::json model = transformer("gpt", layers, width, heads, context);
  model["bias"] = false;
  return model;
}

nlohmann::json gpt2_124m() {
  nlohmann::json model = transformer("gpt", 12, 768, 12, 1024);
  model["activation"] = "gelu_tanh";
  return model;
}

const std::map<std::string, Make> kWorkloads{
    {"resnet20", on_images({[](Index c, Index k) { return resnet_of(20, c, k); }, {128, 28, 28, 1}, 10})},
    {"resnet50", on_images({[](Index c, Index k) { return resnet_of(50, c, k); }, {16, 224, 224, 3}, 1000})},
    {"unet", on_images({[](Index c, Index k) -> nn::ModulePtr {
                          return std::make_shared<models::UNet>(models::UNetOptions{
                              .in_channels = c, .num_classes = k, .width = 16, .levels = 3});
                        },
                        {16, 64, 64, 1},
                        11,
                        true})},
    {"ssd_small", on_objects({kSmallSsd, {32, 128, 128, 1}, 11, 4})},
    {"ssd_small_300", on_objects({kSmallSsd, {8, 300, 300, 1}, 11, 4})},
    {"ssd300_resnet34", on_objects({kSsd300, {8, 300, 300, 3}, 81, 7})},
    {"ssdlite320", on_objects({kSsdLite, {8, 320, 320, 3}, 81, 7})},
    {"dcgan", gan},
    {"language", language},
    {"translation", on_pairs(kGnmt)},
    {"transformer", on_pairs(kTranslator)},
    {"gpt_char", on_texts(next_words, {gpt_of_characters(4, 128, 4, 64), 100, 12, 64})},
    {"gpt_char_384", on_texts(next_words, {gpt_of_characters(6, 384, 6, 256), 100, 4, 256})},
    {"gpt2_124m", on_texts(next_words, {gpt2_124m(), 50257, 4, 256})},
    {"bert_mini", on_texts(masked_words, {transformer("bert", 4, 256, 4, 128), 8000, 64, 128, 20})},
    {"vit_ti", on_patches({.width = 192, .heads = 3}, 8)},
    {"vit_fashion", on_patches({.in_channels = 1,
                                .num_classes = 10,
                                .image = {28, 28},
                                .patch = 4,
                                .layers = 4,
                                .width = 128,
                                .heads = 4,
                                .inner = 256,
                                .dropout = 0.1},
                               128)},
    {"ssd_matching", part(ssd_matching)},
    {"ssd_loss", part(ssd_loss)},
    {"ssd_nms", part(ssd_nms)},
    {"coco_metric", part(coco_metric)},
    {"ssd_loader", part(ssd_loader)},
};

Json by_type(const std::vector<std::pair<DType, double>>& rates) {
  Json json = Json::object();
  for (const auto& [dtype, rate] : rates) json[std::string(name_of(dtype))] = 1e-9 * rate;
  return json;
}

// Answers the commands.
class Server {
 public:
  explicit Server(const std::function<TrainingPtr()>& make) : baseline_(resident("VmRSS:")) {
    std::ofstream("/proc/self/clear_refs") << '5';  // resets the peak
    training_ = make();
  }

  Json hello() const {
    return {{"ready", true}, {"items", training_->items()}, {"parameters", training_->parameters()}};
  }

  // Empty for an unknown command.
  Json answer(const std::string& command, int steps) {
    if (command == "first") return {{"losses", training_->step()}};
    if (command == "run") return run(steps);
    if (command == "memory") return {{"peak", resident("VmHWM:") - baseline_}};
    if (command == "phases") return phases();
    if (command == "limits") return limits();
    if (command == "roofline") return roofline();
    if (command == "profile") return profile(steps);
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

  // Runs an extra step, which `phases` does not count.
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
    // The fastest rate of any kind is the bandwidth limit.
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

  Json profile(int steps) {
    const train::StageTimer before = training_->stages;
    const profile::Profile profile = profile::measure(backend_for({}), training_->update_bytes(),
                                                      training_->stages, steps, [&] { training_->step(); });
    training_->stages = before;
    return profile::to_json(profile);
  }

  std::size_t baseline_;
  TrainingPtr training_;
  profile::Limits limits_;
  int steps_ = 0;  // since the warm-up, the first run
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
  samples::register_all();
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
