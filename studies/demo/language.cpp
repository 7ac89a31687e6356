// language: a recurrent language model trained in FP16 with and without a loss scale. The loss is a mean over
// 8,192 words, so most gradients of the logits are below 2^-25. The scale of 128 is that of the published
// runs of bigLSTM, where FP16 without a scale deviated from FP32 (Micikevicius et al., "Mixed precision
// training", 2018).
#include <fmt/core.h>

#include <cmath>

#include "amp/gradient_histogram.h"
#include "autograd/engine.h"
#include "config/load.h"
#include "report/table.h"
#include "studies/demo/arms.h"
#include "studies/inspect/workbench.h"

namespace tandem::demo {

namespace {

constexpr int kLog2Scale = 7;

struct Setting {
  std::vector<std::string> keys;  // of the configuration
  std::int64_t steps;
};

Setting setting_of(const Session& session) {
  const auto size = [](int units, int words, int streams, double lr) {
    return std::vector<std::string>{
        fmt::format("model.embedding={}", units), fmt::format("model.units={}", units),
        fmt::format("data.vocabulary={}", words), fmt::format("data.batch_size={}", streams),
        fmt::format(R"(optimizer={{"name":"adam","lr":{}}})", lr)};
  };
  Setting setting =
      session.small() ? Setting{size(16, 1000, 2048, 0.02), 12} : Setting{size(64, 8000, 256, 0.01), 120};
  for (const char* key :
       {"model.num_layers=1", "model.dropout=0", "data.steps=32", "schedule=constant", "clip_norm=1"})
    setting.keys.emplace_back(key);
  if (!session.options().text.empty())
    setting.keys.push_back("data.path=" + Json(session.options().text).dump());
  return setting;
}

ArmResult train(const Arm& arm, const config::Loaded& loaded, std::int64_t steps, Session& session) {
  train::Workbench bench(loaded, {});
  const auto learners = bench.make_learners(arm.precision);
  optim::Step& step = *learners->front().step;
  const amp::ResolvedPrecision resolved(arm.precision, bench.model());
  ArmResult result{.curve = {.name = arm.name}};
  for (std::int64_t i = 0; i < steps; ++i) {
    const Tensor loss = bench.loss(bench.next_batch(), resolved, static_cast<std::uint32_t>(i));
    step.backward(loss);
    step.apply();
    result.log(i + 1, steps, loss, session);
  }
  result.skipped = step.synchronize().skipped;
  result.perplexity = tasks::metric(bench.evaluate(), "perplexity");
  return result;
}

double share_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

// Prints and returns the share of non-zero activation gradients of each layer that FP16 rounds to zero at the
// start of training, at scale 1 and at 2^kLog2Scale.
Json show_flushed(const config::Loaded& loaded) {
  train::Workbench bench(loaded, {});
  const amp::ResolvedPrecision resolved(amp::Precision::fp32(), bench.model());
  amp::GradientCollector collector(bench.model());
  backward(bench.loss(bench.next_batch(), resolved));
  report::Table table(
      {"layer", "gradients", "flushed, %", fmt::format("with a scale of {}, %", 1 << kLog2Scale)});
  Json layers = Json::object();
  const auto add = [&](const std::string& name, const amp::ExponentHistogram& gradients) {
    const std::int64_t non_zero = gradients.total() - gradients.zeros();
    if (non_zero == 0) return;
    const double alone = share_of(gradients.flushed(0), non_zero),
                 scaled = share_of(gradients.flushed(kLog2Scale), non_zero);
    table.add({name, fmt::format("{}", non_zero), fmt::format("{:.2f}", 100.0 * alone),
               fmt::format("{:.2f}", 100.0 * scaled)});
    layers[name] = {{"1", alone}, {fmt::format("{}", 1 << kLog2Scale), scaled}};
  };
  for (const auto& layer : collector.layers()) add(layer.name, layer.activations);
  add("all", collector.activations());
  table.print();
  return layers;
}

}  // namespace

void run_language(Session& session) {
  const Setting setting = setting_of(session);
  if (session.options().text.empty()) text_path(session, "language");
  const config::Loaded loaded = config::load("debian_lstm", setting.keys);
  train::prepare_machine(loaded);
  session.say(
      fmt::format("An LSTM language model learns for {} steps of {} words. Gradients of each layer that FP16 "
                  "rounds to zero at the start of training:\n",
                  setting.steps, 32 * loaded.config.data.batch_size));
  const Json flushed = show_flushed(loaded);
  session.say("");

  const std::vector<Arm> arms = scaling_arms(1 << kLog2Scale);
  std::vector<ArmResult> results;
  for (const Arm& arm : arms) results.push_back(train(arm, loaded, setting.steps, session));
  const Json rows = show_arms(session, "An LSTM language model with and without a loss scale", arms, results);
  session.values = {{"flushed", flushed}, {"arms", rows}};
  const double wide = results[0].perplexity, lost = results[1].perplexity, kept = results[2].perplexity;
  const bool shown = lost > 1.05 * wide && kept < 0.5 * (wide + lost) && results[3].perplexity < 1.05 * wide;
  session.verdict(
      shown,
      fmt::format(
          "Without a loss scale, FP16 ends at a perplexity of {:.0f}, {:.2f} times FP32's {:.1f}; with a "
          "scale of {} at {:.1f}, with the dynamic one at {:.1f}. It loses {:.0f} % of the gradients.",
          lost, lost / wide, wide, 1 << kLog2Scale, kept, results[3].perplexity,
          100.0 * flushed["all"]["1"].get<double>()));
}

}  // namespace tandem::demo
