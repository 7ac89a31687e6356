#include "models/summary.h"

#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <unordered_set>

#include "autograd/node.h"
#include "autograd/observers.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "nn/device.h"
#include "nn/ports.h"

namespace tandem::models {

namespace {

using Clock = std::chrono::steady_clock;

class Counter final : public OpObserver, public nn::ModuleObserver {
 public:
  Counter(std::vector<LayerSummary>& layers, const nn::Module& model) : layers_(layers) {
    for (const Parameter& parameter : model.parameters()) parameters_.insert(&parameter.leaf());
  }
  std::int64_t traffic() const { return traffic_; }

  void watch(nn::Module& module, std::size_t layer) { index_.emplace(&module, layer); }

  void enter(nn::Module& module) override {
    const auto found = index_.find(&module);
    running_.push_back(found == index_.end() ? nullptr : &layers_[found->second]);
  }
  void leave(nn::Module&, const Tensor& output) override { count({&output, 1}); }
  void leave_several(nn::Module&, std::span<const Tensor> outputs) override { count(outputs); }
  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    for (const Tensor& output : outputs) traffic_ += static_cast<std::int64_t>(output.bytes());
    for (const Tensor& input : inputs)
      if (input.defined() && !(input.requires_grad() && parameters_.contains(node_of(input))))
        traffic_ += static_cast<std::int64_t>(input.bytes());
    const std::int64_t flop = 2 * info.traits.multiply_adds(inputs, outputs);
    if (flop == 0) return;
    if (!running_.empty() && running_.back()) add_own(*running_.back(), info.traits, flop, inputs, outputs);
    // A module that calls itself through a child counts once.
    std::unordered_set<LayerSummary*> counted;
    for (LayerSummary* layer : running_) {
      if (layer && counted.insert(layer).second) layer->flop += flop;
    }
  }

 private:
  static void add_own(LayerSummary& layer, const OpTraits& op, std::int64_t flop,
                      std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
    layer.own_flop += flop;
    if (op.weight < 0) return;
    const Index groups = op.products(inputs, outputs)[0].count;
    layer.inputs = inputs[0].size(-1) / groups;
    layer.outputs = outputs[0].size(-1) / groups;
  }

  // For several outputs, the shape of the first.
  void count(std::span<const Tensor> outputs) {
    if (LayerSummary* layer = running_.back(); layer && !outputs.empty()) {
      layer->output = outputs[0].shape();
      layer->output_bytes = 0;
      for (const Tensor& output : outputs) {
        if (output.defined()) layer->output_bytes += static_cast<std::int64_t>(output.bytes());
      }
      ++layer->calls;
    }
    running_.pop_back();
  }

  std::vector<LayerSummary>& layers_;
  std::unordered_map<const nn::Module*, std::size_t> index_;
  std::unordered_set<const Node*> parameters_;
  std::vector<LayerSummary*> running_;
  std::int64_t traffic_ = 0;
};

// Minimum time of every op over several identical passes.
class Timer final : public OpObserver, public nn::ModuleObserver {
 public:
  explicit Timer(nn::Module& model) {
    model.visit([&](const std::string& path, nn::Module& module) { paths_.emplace(&module, path); });
  }

  std::vector<OpTime> times;

  void start_pass() { next_ = 0; }
  void enter(nn::Module& module) override { running_.push_back(&paths_[&module]); }
  void leave(nn::Module&, const Tensor&) override { running_.pop_back(); }

  void before_forward(const OpInfo&, std::span<const Tensor>) override { starts_.push_back(Clock::now()); }
  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    const double seconds = std::chrono::duration<double>(Clock::now() - starts_.back()).count();
    starts_.pop_back();
    if (!starts_.empty()) return;  // nested in another op
    if (next_ == times.size())
      times.push_back({.layer = running_.empty() ? "" : *running_.back(),
                       .op = &info,
                       .seconds = seconds,
                       .flop = 2 * info.traits.multiply_adds(inputs, outputs)});
    times[next_].seconds = std::min(times[next_].seconds, seconds);
    ++next_;
  }

 private:
  std::unordered_map<const nn::Module*, std::string> paths_;
  std::vector<const std::string*> running_;
  std::vector<Clock::time_point> starts_;  // of running ops
  std::size_t next_ = 0;
};

int depth_of(const std::string& path) {
  return path.empty() ? 0 : 1 + static_cast<int>(std::ranges::count(path, '.'));
}

std::vector<LayerSummary> list_layers(nn::Module& model) {
  std::vector<LayerSummary> layers;
  std::unordered_set<const Leaf*> seen;
  model.visit([&](const std::string& path, nn::Module& module) {
    LayerSummary layer{.name = path,
                       .description = module.describe(),
                       .depth = depth_of(path),
                       .leaf = module.children().empty(),
                       .output = {}};
    for (const auto& [name, parameter] : module.own_parameters()) {
      if (!seen.insert(&parameter.leaf()).second) continue;
      layer.parameters += parameter.value().numel();
      if (parameter.trainable()) layer.trainable += parameter.value().numel();
    }
    layers.push_back(std::move(layer));
  });
  return layers;
}

std::int64_t live_activations(Device device) {
  const MemoryFigures figures = backend_for(device).allocator().figures();
  return static_cast<std::int64_t>(figures.live_by_kind[static_cast<int>(MemoryKind::activations)]);
}

// Restores statistics and counters.
class StatisticsGuard {
 public:
  explicit StatisticsGuard(nn::Module& model) : model_(model), mode_(model, true) {
    for (const nn::Statistic& statistic : model.statistics()) saved_.push_back(statistic.next.clone());
    for (const nn::Counter& counter : model.counters()) counts_.push_back(*counter.next);
  }
  ~StatisticsGuard() {
    const auto statistics = model_.statistics();
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      backend_for(saved_[i].device()).copy_bytes(saved_[i], statistics[i].next);
      statistics[i].next.storage()->bump_version();
    }
    const auto counters = model_.counters();
    for (std::size_t i = 0; i < counts_.size(); ++i) *counters[i].next = counts_[i];
  }
  StatisticsGuard(const StatisticsGuard&) = delete;
  StatisticsGuard& operator=(const StatisticsGuard&) = delete;

 private:
  nn::Module& model_;
  nn::ModeScope mode_;
  TensorList saved_;
  std::vector<std::int64_t> counts_;
};

// Modules with ports get only this input; summaries have no others.
TensorList outputs_of(nn::Module& model, const Tensor& x) {
  if (dynamic_cast<const nn::Ports*>(&model)) return {model(x)};
  return model.all_outputs({x});
}

// After a warm-up pass, which makes descriptors and packs filters.
std::vector<OpTime> time_ops(nn::Module& model, const Tensor& x) {
  constexpr int kPasses = 5;
  Timer timer(model);
  const ObserverScope ops(timer);
  const nn::ModuleObserverScope modules(timer);
  for (int i = 0; i < kPasses; ++i) {
    timer.start_pass();
    outputs_of(model, x);
  }
  return std::move(timer.times);
}

}  // namespace

ModelSummary summarise(nn::Module& model, const Shape& sample, DType dtype, Index batch, int batch_axis) {
  require(batch > 0, "summary", "needs at least one sample, got {}", batch);
  ModelSummary summary;
  summary.layers = list_layers(model);
  Counter counter(summary.layers, model);
  std::size_t next = 0;
  model.visit([&](const std::string&, nn::Module& module) { counter.watch(module, next++); });
  {
    const StatisticsGuard guard(model);
    const RandomScope random(0, 0, 0);
    const Device device = nn::device_of(model);
    const Tensor x = Tensor::zeros(sample.inserted(batch_axis, batch),
                                   {.dtype = dtype, .device = device, .kind = MemoryKind::data});
    {
      const ObserverScope ops(counter);
      const nn::ModuleObserverScope modules(counter);
      const std::int64_t before = live_activations(device);
      const TensorList ys = outputs_of(model, x);
      summary.saved_bytes = (live_activations(device) - before) / batch;
    }
    if (device != kShapes) summary.times = time_ops(model, x);
  }
  for (LayerSummary& layer : summary.layers) {
    layer.flop /= batch;
    layer.own_flop /= batch;
    layer.output_bytes /= batch;
    summary.parameters += layer.parameters;
    summary.trainable += layer.trainable;
  }
  summary.flop = summary.layers.front().flop;
  if (batch_axis > 0) summary.steps = sample[0];
  summary.traffic_bytes = counter.traffic() / batch;
  for (const Parameter& parameter : model.parameters()) {
    summary.parameter_bytes += static_cast<std::int64_t>(parameter.value().bytes());
    if (parameter.trainable()) summary.gradient_bytes += static_cast<std::int64_t>(parameter.value().bytes());
  }
  for (const nn::Statistic& statistic : model.statistics())
    summary.statistic_bytes += static_cast<std::int64_t>(statistic.live.bytes());
  return summary;
}

void add_part(ModelSummary& whole, ModelSummary part, const std::string& path) {
  const auto below = [&](const std::string& name) { return name.empty() ? path : path + "." + name; };
  for (LayerSummary& layer : part.layers) {
    layer.name = below(layer.name);
    whole.layers.push_back(std::move(layer));
  }
  for (OpTime& time : part.times) {
    time.layer = below(time.layer);
    whole.times.push_back(std::move(time));
  }
  whole.parameters += part.parameters;
  whole.trainable += part.trainable;
  whole.flop += part.flop;
  whole.steps = std::max(whole.steps, part.steps);
  whole.parameter_bytes += part.parameter_bytes;
  whole.statistic_bytes += part.statistic_bytes;
  whole.gradient_bytes += part.gradient_bytes;
  whole.saved_bytes += part.saved_bytes;
  whole.traffic_bytes += part.traffic_bytes;
}

}  // namespace tandem::models
