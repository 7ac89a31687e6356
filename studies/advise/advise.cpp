#include "studies/advise/advise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "config/task.h"
#include "core/cpu/level.h"
#include "core/error.h"
#include "core/memory_limit.h"
#include "models/advice.h"
#include "runs/run_data.h"
#include "studies/advise/products.h"
#include "studies/compare/statistics.h"
#include "studies/plan/measure.h"
#include "studies/plan/planner.h"
#include "studies/plan/subject.h"
#include "train/footprint.h"
#include "train/planned.h"
#include "train/setup.h"
#include "train/start_checks.h"

namespace tandem::advise {

namespace {

using amp::plan::Graph;
using amp::plan::Op;

constexpr double kLeastGain = 0.02;  // share of a product's time below which a change is noise
constexpr std::size_t kWorst = 3;

// Work of forward and of each gradient.
Work work_of(const Graph& graph, const Op& op, std::int64_t flop, std::int64_t bytes_an_element) {
  std::int64_t elements = 0;
  bool gradient = false;
  for (const auto& read : op.reads) {
    const auto& result = graph.at(read.op).results[static_cast<std::size_t>(read.result)];
    elements += result.elements;
  }
  for (const auto& result : op.results) {
    elements += result.elements;
    gradient |= result.gradient;
  }
  std::int64_t passes = 1;
  if (gradient) {
    const auto wanted = std::ranges::count_if(op.reads, [&](const auto& read) {
      return graph.at(read.op).results[static_cast<std::size_t>(read.result)].gradient;
    });
    passes += is_product(op) ? std::min<std::int64_t>(2, wanted) : 1;
  }
  return {.flop = flop * passes, .bytes = elements * bytes_an_element * passes};
}

std::string unit_of(Backend& backend, DType low) {
  if (backend.device().type == DeviceType::cuda) return "tensor cores";
  if (low != DType::bf16) return "";
  if (cpu::level() == cpu::Level::amx) return "AMX";
  return cpu::has_bf16_products(cpu::level()) ? "AVX-512 BF16" : "";
}

class AdviceBuilder {
 public:
  AdviceBuilder(const config::Loaded& loaded, std::size_t phase, double seconds)
      : phase_(phase),
        loaded_(loaded),
        precision_(planning::precision_of(loaded)),
        data_(runs::describe_data(loaded.config)),
        backend_(backend_for(train::device_of(loaded.config))),
        measured_(planning::measure(loaded, data_, train::trace_of(loaded, data_, phase), precision_,
                                    {.seconds = seconds, .phase = phase})),
        products_(products_of(loaded, data_, phase)) {}

  Advice run() {
    advice_.dtype = name_of(precision_.dtype);
    advice_.unit = unit_of(backend_, precision_.dtype);
    const auto& machine = measured_.machine;
    const double overhead = static_cast<double>(machine.launch_ns) * 1e-9;
    const auto rate = [&](DType type) {
      return Rates{machine.flops.at(std::string(name_of(type))), machine.bytes_per_second, overhead};
    };
    advice_.f32 = rate(DType::f32);
    advice_.low = rate(precision_.dtype);
    advice_.factor = advice_.low.flops / advice_.f32.flops;
    advice_.ridge = advice_.low.flops / advice_.low.bytes_per_second;
    ops();
    whole_step();
    shapes();
    batch();
    return std::move(advice_);
  }

 private:
  const Product* product_of(const Op& op) const {
    const auto found = std::ranges::find(products_, op.key, &Product::key);
    return found == products_.end() ? nullptr : &*found;
  }

  void ops() {
    const Graph& graph = measured_.graph;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      if (!measured_.measured[i]) continue;
      const Op& op = graph.ops[i];
      OpAdvice line{.key = op.key, .f32_ns = measured_.f32_ns[i], .low_ns = measured_.low_ns[i]};
      line.product = is_product(op);
      if (const Product* const product = product_of(op)) {
        line.size = product->size;
        line.tensor_cores = filled(product->size, kTensorCore);
        line.amx = filled(product->size, kAmx);
      }
      const double used = advice_.unit == "AMX"            ? line.amx
                          : advice_.unit == "tensor cores" ? line.tensor_cores
                                                           : 1.0;
      const Work wide = work_of(graph, op, measured_.flop[i], 4),
                 low = work_of(graph, op, measured_.flop[i], 2);
      line.f32_estimate_ns = 1e9 * estimated_seconds(wide, advice_.f32);
      line.low_estimate_ns = 1e9 * estimated_seconds(low, advice_.low, used);
      line.bound = bound_of(wide, advice_.f32, 1e-9 * line.f32_ns);
      line.low_bound = bound_of(low, advice_.low, 1e-9 * line.low_ns, used);
      advice_.ops.push_back(std::move(line));
    }
    advice_.worst = advice_.ops;
    const auto off = [](const OpAdvice& op) { return std::abs(op.low_ns - op.low_estimate_ns); };
    std::ranges::stable_sort(advice_.worst, std::ranges::greater{}, off);
    if (advice_.worst.size() > kWorst) advice_.worst.resize(kWorst);
  }

  void whole_step() {
    double sums[3] = {}, products = 0.0, ops = 0.0;
    for (const OpAdvice& op : advice_.ops) {
      sums[static_cast<std::size_t>(op.bound)] += op.f32_ns;
      ops += op.f32_ns;
      if (op.product) products += op.f32_ns;
    }
    const double rest = static_cast<double>(measured_.rest_ns), whole = ops + rest;
    advice_.f32_ms = 1e-6 * whole;
    // Matrix units speed up only products, so other compute-bound ops do not count as compute.
    advice_.shares = {
        .compute = sums[0] / whole, .memory = sums[1] / whole, .overhead = (sums[2] + rest) / whole};
    advice_.expected = step_speedup(advice_.shares, advice_.factor);
    advice_.bound = models::amdahl_bound(products / whole, INFINITY);
    const amp::ResolvedPrecision full(amp::Precision::fp32());
    planning::Subject subject(loaded_, data_, amp::Precision::fp32());
    std::vector<double> steps;
    for (int i = 0; i < 4; ++i) {
      const double seconds = subject.step(full)[phase_];
      if (i > 0) steps.push_back(seconds);
    }
    advice_.closure = whole * 1e-9 / compare::quantile(steps, 0.5) - 1.0;
  }

  // "channels of zeros, added by the loader"
  static std::string how_to(const Product& from, const Product& to, bool last) {
    if (!from.input_gradient) return "channels of zeros, added by the loader";
    if (last && to.outputs != from.outputs) return "a larger vocabulary or more classes, with masked logits";
    return "wider layers: channels or units";
  }

  void shapes() {
    std::vector<Product> from, to;
    std::vector<int> alike;
    std::vector<bool> last;
    for (const Product& product : products_) {
      if (!product.resizable()) continue;
      const Product wider = product.resized(filled_up(product.inputs, product.inputs < 4 ? 4 : 8),
                                            filled_up(product.outputs, 8));
      if (wider.inputs == product.inputs && wider.outputs == product.outputs) continue;
      const auto same = std::ranges::find_if(from, [&](const Product& other) {
        return other.x == product.x && other.weight == product.weight &&
               other.convolution == product.convolution;
      });
      if (same != from.end()) {
        ++alike[static_cast<std::size_t>(same - from.begin())];
        continue;
      }
      from.push_back(product);
      to.push_back(wider);
      alike.push_back(1);
      last.push_back(&product == &products_.back());
    }
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::vector<double> times = times_of({from[i], to[i]}, backend_, precision_.dtype);
      const double saved = times[0] - times[1];
      if (saved <= kLeastGain * times[0]) continue;
      advice_.changes.push_back(
          {.layer = alike[i] > 1 ? fmt::format("{} (and {} like it)", from[i].key.path, alike[i] - 1)
                                 : from[i].key.path,
           .inputs = from[i].inputs,
           .outputs = from[i].outputs,
           .new_inputs = to[i].inputs,
           .new_outputs = to[i].outputs,
           .saved_us = 1e6 * saved * alike[i],
           .added_bytes = (to[i].bytes() - from[i].bytes()) * alike[i],
           .how = how_to(from[i], to[i], last[i])});
    }
    std::ranges::stable_sort(advice_.changes, std::ranges::greater{}, &ShapeChange::saved_us);
  }

  void batch() {
    const Index now = std::max<Index>(1, loaded_.config.data.batch_size);
    advice_.batch = now;
    const bool cuda = backend_.device().type == DeviceType::cuda;
    if (!cuda) {
      config::Loaded twice = loaded_;
      twice.config.data.batch_size = 2 * now;
      const train::Footprint one = train::footprint_of(loaded_, data_),
                             two = train::footprint_of(twice, data_);
      if (two.batch > one.batch)
        advice_.most =
            greatest_batch(one.batch, static_cast<double>(one.step.peak), two.batch,
                           static_cast<double>(two.step.peak), static_cast<double>(host_memory_limit()));
    }
    std::vector<BatchProduct> products;
    for (const Product& product : products_)
      products.push_back({product.size, 2 * product.size.multiply_adds()});
    advice_.batch_advice = batch_for(products, now, advice_.ridge, cuda ? 64 : 8,
                                     advice_.most > 0 ? advice_.most : std::numeric_limits<Index>::max() / 2);
  }

  const std::size_t phase_;
  const config::Loaded& loaded_;
  const amp::Precision precision_;
  const tasks::DataPtr data_;
  Backend& backend_;
  const planning::Measured measured_;
  const std::vector<Product> products_;
  Advice advice_;
};

std::vector<amp::LintLine> lint(const config::Loaded& loaded, const amp::Precision& precision) {
  const auto data = runs::open_data(loaded.config, {});
  const auto task = config::make_task(loaded, data);
  train::initialise_from(loaded.config, *task);
  const Device device = train::device_of(loaded.config);
  task->model().to(device);
  task->model().train();
  return train::lint_of(*task, amp::ResolvedPrecision(precision, task->model()), loaded.config, device);
}

}  // namespace

std::vector<Advice> advise(const config::Loaded& loaded, double seconds) {
  const std::vector<std::string> names = train::planned_phases(loaded, runs::describe_data(loaded.config));
  std::vector<Advice> phases;
  for (std::size_t phase = 0; phase < names.size(); ++phase) {
    phases.push_back(AdviceBuilder(loaded, phase, seconds / static_cast<double>(names.size())).run());
    phases.back().phase = names[phase];
  }
  phases.back().lint = lint(loaded, planning::precision_of(loaded));
  return phases;
}

}  // namespace tandem::advise
