// masters: an update smaller than half a unit in the last place of a 16-bit weight is lost in rounding. FP32
// masters keep it; stochastic rounding keeps it on average.
#include <fmt/core.h>

#include "config/load.h"
#include "core/backend.h"
#include "report/plot/svg.h"
#include "report/table.h"
#include "studies/demo/arms.h"
#include "studies/inspect/workbench.h"

namespace tandem::demo {

namespace {

struct MastersResult {
  double accuracy = 0.0, first_lost = 0.0,
         last_lost = 0.0;  // lost: shares of updates in first and last epoch
  plot::Line curve;        // accuracy by epoch
};

// Number of weights with a gradient, and of those that the update did not change.
struct Lost {
  std::int64_t updates = 0, lost = 0;
  double share() const {
    return updates > 0 ? static_cast<double>(lost) / static_cast<double>(updates) : 0.0;
  }
};

void count_lost(const Tensor& before, const optim::Step& step, Lost& lost) {
  const float* const old = before.data<float>();
  const float* const now = step.buffers().masters().data<float>();
  const float* const gradient = step.buffers().gradients().data<float>();
  for (Index i = 0; i < before.numel(); ++i) {
    if (gradient[i] == 0.0f) continue;
    ++lost.updates;
    lost.lost += old[i] == now[i];
  }
}

MastersResult train(const config::Loaded& loaded, const Arm& arm, std::int64_t epochs, std::int64_t steps,
                    Session& session) {
  train::Workbench bench(loaded, {});
  const auto learners = bench.make_learners(arm.precision);
  optim::Step* const step = learners->front().step.get();
  const amp::ResolvedPrecision resolved(arm.precision, bench.model());
  MastersResult result{.curve = {.name = arm.name}};
  for (std::int64_t epoch = 1; epoch <= epochs; ++epoch) {
    Lost lost;
    for (std::int64_t i = 0; i < steps; ++i) {
      step->backward(bench.loss(bench.next_batch(), resolved, static_cast<std::uint32_t>(step->attempted())));
      const Tensor before = step->buffers().masters().clone();
      step->apply();
      if (!step->synchronize().skip) count_lost(before, *step, lost);
    }
    if (epoch == 1) result.first_lost = lost.share();
    result.last_lost = lost.share();
    result.accuracy = runs::metric(bench.evaluate(), "accuracy");
    result.curve.x.push_back(static_cast<double>(epoch));
    result.curve.y.push_back(100.0 * result.accuracy);
    session.progress(fmt::format("{}: epoch {} of {}, accuracy {:.2f} %", arm.name, epoch, epochs,
                                 100.0 * result.accuracy));
  }
  return result;
}

}  // namespace

void run_masters(Session& session) {
  const bool small = session.small();
  const config::Loaded loaded = config::load(
      small ? "digits_mlp" : "fashion_mlp",
      {R"(model={"name":"mlp","hidden":[128]})", "data.batch_size=32", "data.drop_last=true",
       fmt::format(R"(optimizer={{"name":"sgd","lr":{}}})", small ? 0.002 : 0.001), "schedule=constant"});
  train::prepare_machine(loaded);
  const std::int64_t epochs = small ? 12 : 3, steps = small ? 44 : 1875;
  const auto without_masters = [](DType dtype, bool stochastic) {
    amp::Precision precision = amp::Precision::o3(dtype);
    precision.stochastic_rounding = stochastic;
    if (dtype == DType::f16) precision.scaler = optim::ScalerOptions::fixed(1024.0);
    return precision;
  };
  const Arm arms[] = {{"FP32", amp::Precision::fp32()},
                      {"FP16 with masters", amp::Precision::o2(DType::f16)},
                      {"BF16 with masters", amp::Precision::o2(DType::bf16)},
                      {"FP16 without masters", without_masters(DType::f16, false)},
                      {"BF16 without masters", without_masters(DType::bf16, false)},
                      {"BF16 without, stochastic rounding", without_masters(DType::bf16, true)}};
  session.say(fmt::format(
      "A perceptron on {}, SGD with a learning rate of {}, {} epochs of {} steps. An update is lost if\n"
      "the weight does not change although its gradient is not zero.\n",
      small ? "the digits" : "Fashion-MNIST", small ? 0.002 : 0.001, epochs, steps));
  report::Table table({"weights", "accuracy", "lost in the first epoch", "in the last"});
  Json rows = Json::array();
  plot::LineChart chart{
      .title = "Weights without masters", .x = {.title = "epoch"}, .y = {.title = "test accuracy, %"}};
  std::vector<MastersResult> results;
  for (const Arm& arm : arms) {
    results.push_back(train(loaded, arm, epochs, steps, session));
    const MastersResult& r = results.back();
    table.add({arm.name, fmt::format("{:.2f} %", 100.0 * r.accuracy),
               fmt::format("{:.1f} %", 100.0 * r.first_lost), fmt::format("{:.1f} %", 100.0 * r.last_lost)});
    rows.push_back({{"arm", arm.name},
                    {"accuracy", r.accuracy},
                    {"lost_first_epoch", r.first_lost},
                    {"lost_last_epoch", r.last_lost}});
    chart.lines.push_back(r.curve);
  }
  table.print();
  session.chart("accuracy", plot::to_svg(chart));
  session.values = {{"arms", rows}};
  const double wide = results[0].accuracy, masters = results[2].accuracy, bare = results[4].accuracy,
               stochastic = results[5].accuracy;
  const bool shown =
      bare < wide - 0.02 && results[4].last_lost > 0.9 && masters > bare + 0.02 && stochastic > bare + 0.02;
  session.verdict(shown, fmt::format("BF16 weights without masters lose {:.0f} % of their updates and end at "
                                     "{:.1f} %; with masters {:.1f} %, "
                                     "with stochastic rounding {:.1f} %, FP32 {:.1f} %.",
                                     100.0 * results[4].last_lost, 100.0 * bare, 100.0 * masters,
                                     100.0 * stochastic, 100.0 * wide));
}

}  // namespace tandem::demo
