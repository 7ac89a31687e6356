#include "amp/planned_policy.h"

#include <algorithm>

#include "autograd/leaf.h"
#include "autograd/modes.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "core/error.h"
#include "core/suggest.h"

namespace tandem::amp {

namespace {

constexpr std::string_view kMakeAgain = "make it again: tandem plan CONFIG";

void check_precision(const plan::PrecisionPlan& plan, const std::string& file, const Precision& precision) {
  require(precision.level == Level::O1, "plan", "{} decides for every op, which needs level O1; use level O1",
          file);
  require(precision.dtype == plan.dtype, "plan", "{} is for {}, but precision.dtype is {}; {}", file,
          name_of(plan.dtype), name_of(precision.dtype), kMakeAgain);
  require(precision.lists.empty() && precision.layers.empty(), "plan",
          "{} decides for every op, so lists and layers have no effect; remove them, or pin ops with "
          "`must` when the plan is made",
          file);
  require(!precision.lower_batch_norm, "plan",
          "{} leaves the parameters of batch norm in f32; remove batch_norm", file);
}

bool asks_for_types(const OpInfo& info, std::span<const Tensor> inputs) {
  return info.rule != CastRule::none && std::ranges::any_of(inputs, [](const Tensor& input) {
           return input.defined() && is_floating(input.dtype());
         });
}

}  // namespace

bool is_planned(const OpInfo& info, std::span<const Tensor> inputs) {
  return GradMode::enabled() && asks_for_types(info, inputs);
}

PlannedTypes::PlannedTypes(plan::PhasePlans phases, std::string file, const Precision& precision,
                           nn::Module& model)
    : phases_(std::move(phases)),
      file_(std::move(file)),
      model_(model),
      rounds_weight_gradients_(precision.round_weight_gradients) {
  for (const plan::PrecisionPlan& plan : phases_) check_precision(plan, file_, precision);
  rules_ = std::make_unique<CastPolicy>(precision);
  model.visit([&](const std::string& path, nn::Module& module) { paths_.emplace(&module, path); });
  for (const plan::PrecisionPlan& plan : phases_) {
    std::vector<Entry>& entries = entries_.emplace_back();
    ByOp of_phase;
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      const Entry entry = entry_of(plan, i);
      if (entry.op->rule == CastRule::none || entry.op->traits.moves_values()) continue;
      of_phase[{entry.module, entry.op}].push_back(entry);
      entries.push_back(entry);
    }
    by_op_.merge(of_phase);  // the earlier phase wins
  }
}

PlannedTypes::Entry PlannedTypes::entry_of(const plan::PrecisionPlan& plan, std::size_t number) const {
  const plan::PrecisionPlan::PlannedOp& planned = plan.ops[number];
  const OpInfo* const op = find_op(planned.key.op);
  require(op != nullptr, "plan", "op {}{} is {} in {}, but this program has no op {}; {}", number,
          phase_suffix(plan), to_string(planned.key), file_, planned.key.op, kMakeAgain);
  Entry entry{.op = op, .number = number, .out = planned.out};
  entry.product = op->rule == CastRule::lower;
  require(entry.product == planned.operands.has_value(), "plan",
          "op {}{}, {}, has {} operands in {}, but is {} in this program; {}", number, phase_suffix(plan),
          to_string(planned.key), planned.operands ? "typed" : "no typed", file_,
          entry.product ? "a product" : "not a product", kMakeAgain);
  entry.operands = planned.operands.value_or(DType::f32);
  entry.keeps_type = op->traits.keeps_type;
  if (planned.key.path == kOutsideModel) return entry;
  const auto module =
      std::ranges::find_if(paths_, [&](const auto& known) { return known.second == planned.key.path; });
  if (module == paths_.end()) {
    std::vector<std::string> known;
    for (const auto& [of, path] : paths_) known.push_back(path);
    std::ranges::sort(known);
    throw UserError("plan", fmt::format("op {}{} is {} in {}, but this model has no layer {}{}; {}", number,
                                        phase_suffix(plan), to_string(planned.key), file_, planned.key.path,
                                        did_you_mean(planned.key.path, known), kMakeAgain));
  }
  entry.module = module->first;
  return entry;
}

std::string PlannedTypes::path_of(const nn::Module* module) const {
  const auto found = paths_.find(module);
  return found == paths_.end() ? std::string(kOutsideModel) : found->second;
}

std::span<const PlannedTypes::Entry> PlannedTypes::find(const nn::Module* module, const OpInfo& op) const {
  const auto found = by_op_.find({module, op.traits.trained_as ? op.traits.trained_as : &op});
  if (found == by_op_.end()) return {};
  return found->second;
}

PlannedPolicy::PlannedPolicy(const PlannedTypes& types, std::size_t phase)
    : types_(types), phase_(phase), observed_(*this) {
  require(phase < types.phases(), "plan", "{} has {} phases, but a step of this task has more; {}",
          types.file(), types.phases(), kMakeAgain);
}

void PlannedPolicy::enter(nn::Module& module) {
  if (running_.empty() && mode_ != Mode::follows) calls_.clear();
  const nn::Module* const outer = running_.empty() ? nullptr : running_.back();
  running_.push_back(types_.has(module) ? &module : outer);
}

void PlannedPolicy::leave(nn::Module&, const Tensor&) {
  if (!running_.empty()) running_.pop_back();
}

const PlannedTypes::Entry* PlannedPolicy::next(const OpInfo& info) {
  if (mode_ == Mode::undecided) mode_ = types_.model().training() ? Mode::follows : Mode::looks_up;
  if (mode_ == Mode::looks_up) return look_up(info);
  if (!GradMode::enabled()) return nullptr;
  const std::vector<Entry>& entries = types_.entries(phase_);
  const nn::Module* const module = running_.empty() ? nullptr : running_.back();
  if (cursor_ == entries.size() || entries[cursor_].op != &info || entries[cursor_].module != module)
    fail(info);
  return &entries[cursor_++];
}

const PlannedTypes::Entry* PlannedPolicy::look_up(const OpInfo& info) {
  const auto found = types_.find(running_.empty() ? nullptr : running_.back(), info);
  if (found.empty()) return nullptr;
  const std::size_t call = calls_[found.data()]++;
  return call < found.size() ? &found[call] : nullptr;
}

void PlannedPolicy::fail(const OpInfo& info) const {
  const std::vector<Entry>& entries = types_.entries(phase_);
  const plan::PrecisionPlan& plan = types_.plan(phase_);
  const std::string here =
      fmt::format("{} {}", types_.path_of(running_.empty() ? nullptr : running_.back()), info.name);
  if (cursor_ == entries.size())
    throw UserError(
        "plan", fmt::format("{} ends after {} ops{}, but this forward continues with {}; {}", types_.file(),
                            plan.ops.size(), phase_suffix(plan), here, kMakeAgain));
  const std::size_t number = entries[cursor_].number;
  throw UserError("plan",
                  fmt::format("op {}{} is {} in {}, {} in this forward; {}", number, phase_suffix(plan),
                              to_string(plan.ops[number].key), types_.file(), here, kMakeAgain));
}

void PlannedPolicy::finish() const {
  if (mode_ != Mode::follows || cursor_ == types_.entries(phase_).size()) return;
  const plan::PrecisionPlan& plan = types_.plan(phase_);
  const std::size_t number = types_.entries(phase_)[cursor_].number;
  throw UserError(
      "plan", fmt::format("op {}{} is {} in {}, but this forward ends before it; {}", number,
                          phase_suffix(plan), to_string(plan.ops[number].key), types_.file(), kMakeAgain));
}

Tensor PlannedPolicy::converted(const Tensor& tensor, DType to) {
  if (!types_.rounds_weight_gradients() && is_16bit(to)) {
    if (Tensor copy = working_copy(tensor, to); copy.defined()) return copy;
  }
  if (!types_.plan(phase_).share || mode_ != Mode::follows) return cast(tensor, to);
  for (auto shared = shared_.rbegin(); shared != shared_.rend(); ++shared)
    if (shared->start == tensor.raw() && shared->edge.node == tensor.edge().node &&
        shared->edge.output == tensor.edge().output && shared->shape == tensor.shape() &&
        shared->cast.dtype() == to)
      return shared->cast;
  shared_.push_back({.from = tensor.requires_grad() ? Tensor() : tensor,
                     .cast = cast(tensor, to),
                     .edge = tensor.edge(),
                     .start = tensor.raw(),
                     .shape = tensor.shape()});
  return shared_.back().cast;
}

DType PlannedPolicy::prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) {
  // The first kind are casts, including this policy's own.
  if (!asks_for_types(info, inputs) || info.traits.moves_values()) return common;
  const Entry* const entry = next(info);
  if (!entry) return types_.rules().prepare(info, inputs, common);
  // An op whose floating inputs are all `keep` (embedding) has no common dtype: it follows its first input.
  if (!is_floating(common) || common == DType::f64) return common;
  require(info.rule != CastRule::banned, info.name,
          "its gradient does not fit 16 bits; use the form that takes logits, or leave the region with "
          "amp::Autocast::off()");
  const auto convert = [&](DType to) {
    convert_inputs(info, inputs, to, [&](const Tensor& input) { return converted(input, to); });
  };
  if (entry->product) {
    convert(entry->operands);
  } else if (entry->keeps_type && entry->out != common) {
    convert(entry->out);
  }
  return entry->out;
}

}  // namespace tandem::amp
