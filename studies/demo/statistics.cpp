// statistics: a running mean changes by momentum · (batch - running). If that is less than half a unit in the
// last place of a 16-bit number, the mean stays constant.
#include <fmt/core.h>

#include <cmath>

#include "config/load.h"
#include "core/error.h"
#include "report/plot/svg.h"
#include "report/table.h"
#include "studies/demo/demo.h"
#include "studies/inspect/workbench.h"

namespace tandem::demo {

namespace {

using Values = std::vector<double>;

Values statistics_of(const nn::Module& model) {
  Values values;
  for (const nn::Statistic& statistic : model.statistics())
    for (const float value : statistic.live.to_vector<float>()) values.push_back(static_cast<double>(value));
  return values;
}

// ‖from - to‖ / ‖to‖ in %.
double distance(const Values& from, const Values& to) {
  double difference = 0.0, size = 0.0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    difference += (from[i] - to[i]) * (from[i] - to[i]);
    size += to[i] * to[i];
  }
  return 100.0 * std::sqrt(difference / size);
}

struct Lengths {
  std::int64_t training, resting, every;  // steps; `every`: between two measurements
};

// A training run with running statistics in FP32 or in FP16. The weights do not depend on them: training uses
// the statistics of the batch.
class Trained {
 public:
  Trained(const config::Loaded& loaded, bool half, const Lengths& lengths)
      : bench_(loaded, {}), resolved_(amp::Precision::amp_bf16()) {
    amp::Precision precision = amp::Precision::amp_bf16();
    precision.dtype = DType::f16;  // of the statistics; ops run in BF16, without a loss scale
    precision.lower_batch_norm = half;
    learners_ = bench_.make_learners(precision, optim::Schedule(0.05, [lengths](std::int64_t applied) {
                                       return applied < lengths.training ? 0.05 : 0.0;
                                     }));
    step_ = learners_->front().step.get();
  }

  void step() {
    step_->backward(
        bench_.loss(bench_.next_batch(), resolved_, static_cast<std::uint32_t>(step_->attempted())));
    step_->apply();
  }
  Values statistics() { return statistics_of(bench_.model()); }
  Tensor weights() const { return step_->buffers().masters(); }
  double accuracy() { return runs::metric(bench_.evaluate(), "accuracy"); }

 private:
  train::Workbench bench_;
  amp::ResolvedPrecision resolved_;
  std::unique_ptr<train::Learners> learners_;
  optim::Step* step_ = nullptr;
};

struct StatisticsResult {
  double momentum = 0.0;
  double wide = 0.0, half = 0.0;  // distance from the average batch at the end, in %
  double wide_accuracy = 0.0, half_accuracy = 0.0;
  plot::Line wide_curve, half_curve;
};

config::Loaded configuration(bool small, double momentum) {
  const std::string norm = fmt::format(R"({{"type":"batch_norm","momentum":{},"relu":true}})", momentum);
  const std::string conv = R"({"type":"conv2d","out_channels":16,"kernel":3,"padding":"same","bias":false})";
  return config::load(
      small ? "digits_lenet" : "fashion_layers",
      {fmt::format(R"(model={{"layers":[{0},{1},{{"type":"max_pool2d","kernel":2}},{0},{1},)"
                   R"({{"type":"global_avg_pool2d"}},{{"type":"linear","out_features":10}}]}})",
                   conv, norm),
       "data.batch_size=64", "data.drop_last=true", "~data.augment",
       R"(optimizer={"name":"sgd","lr":0.05,"momentum":0.9})"});
}

StatisticsResult compare(bool small, double momentum, const Lengths& lengths, Session& session) {
  const config::Loaded loaded = configuration(small, momentum);
  train::prepare_machine(loaded);
  Trained wide(loaded, false, lengths), half(loaded, true, lengths);
  StatisticsResult result{.momentum = momentum,
                          .wide_curve = {.name = fmt::format("FP32, momentum {:g}", momentum)},
                          .half_curve = {.name = fmt::format("FP16, momentum {:g}", momentum)}};
  std::vector<std::pair<Values, Values>> looks;
  Values sum;
  for (std::int64_t i = 0; i < lengths.training + lengths.resting; ++i) {
    const Values before = wide.statistics();
    wide.step();
    half.step();
    const Values after = wide.statistics();
    if (i % 500 == 499)
      session.progress(
          fmt::format("momentum {:g}: step {} of {}", momentum, i + 1, lengths.training + lengths.resting));
    if (i < lengths.training) continue;
    // The statistics of the batch follow from after = (1 - momentum)·before + momentum·batch.
    sum.resize(after.size());
    for (std::size_t c = 0; c < after.size(); ++c)
      sum[c] += (after[c] - (1.0 - momentum) * before[c]) / momentum;
    if ((i - lengths.training) % lengths.every == 0 || i + 1 == lengths.training + lengths.resting) {
      looks.emplace_back(after, half.statistics());
      result.wide_curve.x.push_back(static_cast<double>(i - lengths.training));
    }
  }
  const Tensor a = wide.weights(), b = half.weights();
  ensure(a.to_vector<float>() == b.to_vector<float>(), "demo statistics",
         "weights depend on running statistics");
  for (double& value : sum) value /= static_cast<double>(lengths.resting);
  result.half_curve.x = result.wide_curve.x;
  for (const auto& [of_wide, of_half] : looks) {
    result.wide_curve.y.push_back(result.wide = distance(of_wide, sum));
    result.half_curve.y.push_back(result.half = distance(of_half, sum));
  }
  result.wide_accuracy = wide.accuracy();
  result.half_accuracy = half.accuracy();
  return result;
}

}  // namespace

void run_statistics(Session& session) {
  const bool small = session.small();
  const std::vector<double> momenta = small ? std::vector{0.1, 0.003} : std::vector{0.1, 0.01, 0.001};
  // The start is forgotten after six times the time constant of a running mean, 1/momentum steps.
  const auto lengths_of = [&](double momentum) {
    return Lengths{small ? 60 : 300, std::max<std::int64_t>(small ? 200 : 600, std::llround(6.0 / momentum)),
                   small ? 100 : 50};
  };
  session.say(
      fmt::format("A network with two batch norms on {}: {} steps of training, then 6/momentum steps with "
                  "constant weights.\n"
                  "The running statistics should converge to those of the average batch; the weights of both "
                  "runs are bit-identical.\n",
                  small ? "the digits" : "Fashion-MNIST", lengths_of(0.1).training));
  report::Table table({"momentum", "distance, FP32", "distance, FP16", "accuracy, FP32", "accuracy, FP16"});
  plot::LineChart chart{.title = "Running statistics held in FP32 and in FP16",
                        .x = {.title = "step after training"},
                        .y = {.title = "distance from the average batch, %", .log2 = true}};
  Json rows = Json::array();
  StatisticsResult last;
  for (const double momentum : momenta) {
    last = compare(small, momentum, lengths_of(momentum), session);
    table.add({fmt::format("{:g}", momentum), fmt::format("{:.2f} %", last.wide),
               fmt::format("{:.2f} %", last.half), fmt::format("{:.2f} %", 100.0 * last.wide_accuracy),
               fmt::format("{:.2f} %", 100.0 * last.half_accuracy)});
    rows.push_back({{"momentum", momentum},
                    {"distance_fp32", last.wide},
                    {"distance_fp16", last.half},
                    {"accuracy_fp32", last.wide_accuracy},
                    {"accuracy_fp16", last.half_accuracy}});
    chart.lines.push_back(last.wide_curve);
    chart.lines.push_back(last.half_curve);
  }
  table.print();
  session.chart("distance", plot::to_svg(chart));
  session.values = {{"rows", rows}};
  session.verdict(
      last.half > 3.0 * last.wide,
      fmt::format("With a momentum of {:g}, statistics stored in FP16 stay {:.1f} % from those of the "
                  "average batch, those in FP32 converge to {:.1f} %; accuracy {:.1f} % against {:.1f} %.",
                  last.momentum, last.half, last.wide, 100.0 * last.half_accuracy,
                  100.0 * last.wide_accuracy));
}

}  // namespace tandem::demo
