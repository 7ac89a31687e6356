#include "amp/plan/precision_plan.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/printable.h"
#include "files/digest.h"

namespace tandem::amp::plan {

namespace {

constexpr std::string_view kAgain = "make it again: tandem plan CONFIG";
constexpr std::size_t kShownName = 60;  // bytes of a phase's
constexpr std::array<const char*, 5> kHowNames = {"kernel", "store", "load", "copy", "once"};

DType type_of(bool low, DType lower) { return low ? lower : DType::f32; }

// Ops that compute f32 results and store them in 16 bits: those that always compute in f32, and those with
// data of another type than their results.
bool rounds_results(const Graph& graph, const Assignment& assignment, std::size_t index) {
  const Op& op = graph.ops[index];
  if (op.kind != Kind::op || op.view || !assignment[index].out) return false;
  if (op.rule == CastRule::fp32 || op.rule == CastRule::banned || !reads_data(op)) return true;
  return std::ranges::any_of(op.reads, [&](const Read& read) {
    return read.role == Role::data &&
           !(is_product(op) ? assignment[index].operands : assignment[static_cast<std::size_t>(read.op)].out);
  });
}

// All casts, including rounding in stores.
std::vector<PrecisionPlan::Cast> casts_of(const Graph& graph, const Assignment& assignment, DType low,
                                          bool share) {
  std::vector<PrecisionPlan::Cast> casts;
  const ReaderTable readers = readers_of(graph);
  for (const PlannedCast& cast : predict(graph, assignment, share).casts) {
    const Op& op = graph.at(cast.op);
    const bool gradient = op.results[static_cast<std::size_t>(cast.result)].gradient;
    How how = How::kernel;
    if (op.kind == Kind::parameter) how = How::working_copy;
    if (op.kind == Kind::input && !gradient) how = How::once;
    casts.push_back({op.key, cast.result, type_of(cast.low, low), cast.consumers, cast.ns, how});
  }
  for (std::size_t index = 0; index < graph.ops.size(); ++index) {
    if (!rounds_results(graph, assignment, index)) continue;
    for (std::size_t r = 0; r < readers[index].size(); ++r) {
      const Readers& of = readers[index][r];
      const auto consumers = static_cast<int>(of.products.size() + of.views.size()) + of.others;
      casts.push_back({graph.ops[index].key, static_cast<int>(r), low, consumers, 0, How::store});
    }
  }
  return casts;
}

std::string joined_reads(const Graph& graph, const Op& op) {
  std::string text;
  for (const Read& read : op.reads)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", to_string(graph.at(read.op).key), read.result);
  return text;
}

}  // namespace

const char* name_of(How how) { return kHowNames[static_cast<std::size_t>(how)]; }

std::optional<How> how_from_name(std::string_view name) {
  const auto found = std::ranges::find(kHowNames, name);
  if (found == kHowNames.end()) return std::nullopt;
  return static_cast<How>(found - kHowNames.begin());
}

std::string phase_suffix(const PrecisionPlan& plan) {
  return plan.model.phase == PrecisionPlan::Model{}.phase
             ? ""
             : fmt::format(" of the {}", shortened(printable(plan.model.phase), kShownName));
}

PrecisionPlan plan_of(const Graph& graph, const Assignment& assignment, const std::vector<Why>& reasons,
                      DType low, bool share, const std::vector<bool>& measured) {
  check(graph, assignment);
  ensure(is_16bit(low), "plan", "the lower type is {}, expected f16 or bf16", name_of(low));
  ensure(reasons.size() == graph.ops.size() && measured.size() == graph.ops.size(), "plan",
         "{} reasons and {} sources of prices for {} ops", reasons.size(), measured.size(), graph.ops.size());
  PrecisionPlan plan{.dtype = low, .share = share};
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.kind != Kind::op) continue;
    PrecisionPlan::PlannedOp entry{.key = op.key,
                                   .out = type_of(assignment[i].out, low),
                                   .why = reasons[i],
                                   .ns = op.ns,
                                   .measured = measured[i]};
    if (is_product(op)) entry.operands = type_of(assignment[i].operands, low);
    plan.ops.push_back(std::move(entry));
  }
  plan.model.ops = static_cast<std::int64_t>(plan.ops.size());
  plan.casts = casts_of(graph, assignment, low, share);
  plan.predicted = {.f32 = predict(graph, full_precision(graph)).total(),
                    .low = predict(graph, low_precision(graph)).total(),
                    .plan = predict(graph, assignment, share).total()};
  const bool banned =
      std::ranges::any_of(graph.ops, [](const Op& op) { return op.rule == CastRule::banned; });
  if (!banned) plan.predicted.rules = predict(graph, rules(graph), /*share=*/false).total();
  return plan;
}

Assignment assignment_of(const PrecisionPlan& plan, const Graph& graph, std::string_view file) {
  require_match(plan, keys_of(graph), file);
  Assignment assignment;
  std::size_t next = 0;
  for (const Op& op : graph.ops) {
    Types types{.operands = false, .out = op.pin.out.value_or(false)};  // of inputs of the step
    if (op.kind == Kind::op) {
      const PrecisionPlan::PlannedOp& entry = plan.ops[next++];
      require(entry.operands.has_value() == is_product(op), "plan",
              "{} {} operands in {}, but is {} in this model; {}", to_string(op.key),
              entry.operands ? "has" : "has no", file, is_product(op) ? "a product" : "not a product",
              kAgain);
      types = {.operands = entry.operands.value_or(DType::f32) != DType::f32, .out = entry.out != DType::f32};
    }
    assignment.push_back(types);
  }
  for (int i = 0; i < graph.count(); ++i) {
    const int root = root_of(graph, i);
    require(assignment[static_cast<std::size_t>(i)].out == assignment[static_cast<std::size_t>(root)].out,
            "plan", "{} is a view of {} and has another type in {}; {}", to_string(graph.at(i).key),
            to_string(graph.at(root).key), file, kAgain);
  }
  return assignment;
}

std::string model_digest(const Graph& graph, const std::vector<std::string>& modules) {
  files::Sha256 digest;
  for (const Op& op : graph.ops)
    digest.add(fmt::format("{}|{}|{}|{}|{}\n", op.key.path, op.key.op, op.key.call, name_of(op.rule),
                           joined_reads(graph, op)));
  for (const std::string& module : modules) digest.add(module + "\n");
  return "sha256:" + digest.hex();
}

std::string shapes_digest(const Graph& graph) {
  files::Sha256 digest;
  for (const Op& op : graph.ops) {
    digest.add(to_string(op.key));
    for (const Result& result : op.results) digest.add(fmt::format("|{}", result.elements));
    digest.add("\n");
  }
  return "sha256:" + digest.hex();
}

std::vector<OpKey> keys_of(const Graph& graph) {
  std::vector<OpKey> keys;
  for (const Op& op : graph.ops)
    if (op.kind == Kind::op) keys.push_back(op.key);
  return keys;
}

void require_match(const PrecisionPlan& plan, const std::vector<OpKey>& model, std::string_view file) {
  const std::size_t common = std::min(plan.ops.size(), model.size());
  std::size_t first = common, differ = std::max(plan.ops.size(), model.size()) - common;
  for (std::size_t i = common; i-- > 0;) {
    if (plan.ops[i].key == model[i]) continue;
    first = i;
    ++differ;
  }
  if (differ == 0) return;
  const std::string here =
      first < model.size() ? to_string(model[first]) + " in this model" : "not in this model";
  const std::string there = first < plan.ops.size()
                                ? fmt::format("{} in {}", to_string(plan.ops[first].key), file)
                                : fmt::format("not in {}", file);
  throw UserError("plan", fmt::format("op {}{} is {}, {} ({} differ); {}", first, phase_suffix(plan), there,
                                      here, differ, kAgain));
}

}  // namespace tandem::amp::plan
