// skip: a loss scale that starts too high. Steps overflow and are undone, and the scale falls until steps
// succeed; then it grows again. Dropped batches are lost, retried ones are not.
#include <fmt/core.h>

#include <cmath>
#include <optional>

#include "amp/overflow.h"
#include "config/load.h"
#include "report/plot/svg.h"
#include "report/table.h"
#include "studies/demo/demo.h"
#include "studies/inspect/workbench.h"

namespace tandem::demo {

namespace {

// FNV-1a hash over the bytes of a step's tensors whose names start with one of the prefixes.
std::uint64_t hash_of(const std::vector<optim::NamedTensor>& state,
                      std::initializer_list<const char*> prefixes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto& [name, tensor] : state) {
    const bool wanted = std::ranges::any_of(
        prefixes, [&name = name](const char* prefix) { return name.starts_with(prefix); });
    if (!wanted) continue;
    const auto* const bytes = static_cast<const unsigned char*>(tensor.raw());
    for (std::size_t i = 0; i < tensor.bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  }
  return hash;
}

struct Hashes {
  std::uint64_t weights, optimizer, statistics;
  bool operator==(const Hashes&) const = default;
};

Hashes hashes_of(optim::Step& step) {
  const auto state = step.state();
  return {hash_of(state, {"master."}), hash_of(state, {"moment.", "updates."}),
          hash_of(state, {"statistic.", "counter."})};
}

struct Trajectory {
  plot::Line scale;
  std::vector<plot::Mark> skipped;
  std::int64_t attempted = 0, applied = 0, batches = 0;
  bool unchanged = true;  // of every skipped step
  double lowest = 0.0, last = 0.0;
  int rises = 0;
  std::optional<amp::Overflow> culprit;
  Hashes before{}, after{};  // of the first skipped step
};

Trajectory train(const config::Loaded& loaded, bool retry, std::int64_t batches) {
  train::Workbench bench(loaded, {});
  amp::Precision precision = amp::Precision::amp_fp16();
  precision.scaler.initial = 0x1p24;
  precision.scaler.interval = 20;
  const auto learners = bench.make_learners(precision);
  optim::Step* const step = learners->front().step.get();
  const amp::ResolvedPrecision resolved(precision, bench.model());
  Trajectory curve{.scale = {.name = retry ? "retry" : "drop", .steps = true}};
  curve.lowest = precision.scaler.initial;
  for (; curve.batches < batches; ++curve.batches) {
    const datasets::Batch batch = bench.next_batch();
    for (bool again = true; again;) {
      const Hashes before = hashes_of(*step);
      const auto number = static_cast<std::uint32_t>(step->last_report().applied);
      step->backward(bench.loss(batch, resolved, number));
      step->apply();
      const optim::StepReport report = step->synchronize();
      curve.scale.x.push_back(static_cast<double>(report.attempted));
      curve.scale.y.push_back(report.loss_scale);
      curve.lowest = std::min(curve.lowest, report.next_loss_scale);
      curve.last = report.next_loss_scale;
      curve.rises += report.next_loss_scale > report.loss_scale;
      again = report.skip && retry;
      if (!report.skip) continue;
      curve.skipped.push_back({static_cast<double>(report.attempted)});
      const Hashes after = hashes_of(*step);
      curve.unchanged = curve.unchanged && before == after;
      if (curve.culprit) continue;
      curve.before = before;
      curve.after = after;
      curve.culprit = amp::find_overflow(
          bench.model(), 1, [&](int) { return bench.loss(batch, resolved, number); }, report.loss_scale);
      step->clear();
    }
  }
  const optim::StepReport report = step->synchronize();
  curve.attempted = report.attempted;
  curve.applied = report.applied;
  return curve;
}

}  // namespace

void run_skip(Session& session) {
  const bool small = session.small();
  const config::Loaded loaded =
      config::load(small ? "digits_lenet" : "fashion_resnet20",
                   {R"(model={"name":"resnet8","width":8})", "data.batch_size=32", "optimizer.lr=0.02"});
  train::prepare_machine(loaded);
  const std::int64_t batches = small ? 60 : 300;
  const Trajectory drop = train(loaded, false, batches), retry = train(loaded, true, batches);
  session.say(
      fmt::format("ResNet-8 on {}, {} batches in FP16, with a loss scale that starts at 2^24 and doubles "
                  "after 20 clean steps.\n",
                  loaded.config.task.value("data.name").text, batches));
  if (drop.culprit) session.say("the first overflow: " + amp::to_string(*drop.culprit) + "\n");
  report::Table hashes({"hash of", "before the skipped step", "after it"});
  hashes.right_from(9);
  const auto hex = [](std::uint64_t hash) { return fmt::format("{:016x}", hash); };
  hashes.add({"weights", hex(drop.before.weights), hex(drop.after.weights)});
  hashes.add({"optimizer state", hex(drop.before.optimizer), hex(drop.after.optimizer)});
  hashes.add({"batch-norm statistics", hex(drop.before.statistics), hex(drop.after.statistics)});
  hashes.print();
  session.say("");
  report::Table table(
      {"on_skip", "batches", "attempted", "applied", "skipped", "lowest scale", "last scale"});
  for (const Trajectory* curve : {&drop, &retry})
    table.add({curve->scale.name, fmt::format("{}", curve->batches), fmt::format("{}", curve->attempted),
               fmt::format("{}", curve->applied), fmt::format("{}", curve->skipped.size()),
               fmt::format("2^{:g}", std::log2(curve->lowest)),
               fmt::format("2^{:g}", std::log2(curve->last))});
  table.print();
  session.chart("scale", plot::to_svg(plot::LineChart{.title = "A loss scale that starts too high",
                                                      .x = {.title = "attempted step"},
                                                      .y = {.title = "loss scale", .log2 = true},
                                                      .lines = {drop.scale, retry.scale},
                                                      .marks = drop.skipped,
                                                      .marks_name = "skipped (drop)"}));
  const auto json = [](const Trajectory& c) {
    return Json{{"attempted", c.attempted}, {"applied", c.applied}, {"skipped", c.skipped.size()},
                {"lowest_scale", c.lowest}, {"last_scale", c.last}, {"rises", c.rises},
                {"unchanged", c.unchanged}};
  };
  session.values = {{"batches", batches}, {"drop", json(drop)}, {"retry", json(retry)}};
  if (drop.culprit)
    session.values["culprit"] = {{"op", drop.culprit->op},
                                 {"tensor", drop.culprit->tensor},
                                 {"index", drop.culprit->index},
                                 {"caused_by_scale", drop.culprit->caused_by_scale}};
  const bool shown = !drop.skipped.empty() && drop.unchanged && retry.unchanged && drop.culprit &&
                     drop.culprit->caused_by_scale && drop.rises > 0 && drop.applied < batches &&
                     retry.applied == batches;
  session.verdict(
      shown, fmt::format("{} steps were skipped and did not change any bit; the scale fell from 2^24 to "
                         "2^{:g} and grew again {} times. Dropping lost {} batches, retrying none.",
                         drop.skipped.size(), std::log2(drop.lowest), drop.rises, batches - drop.applied));
}

}  // namespace tandem::demo
