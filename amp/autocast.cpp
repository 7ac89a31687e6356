#include "amp/autocast.h"

#include <algorithm>

#include "amp/planned_policy.h"
#include "autograd/leaf.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/wide_gradients.h"
#include "core/error.h"
#include "core/options/check.h"
#include "core/pattern.h"
#include "core/suggest.h"

namespace tandem::amp {

namespace {

// Error in the given part of a Precision.
[[noreturn]] void fail(const char* part, const std::string& what) {
  throw options::OptionError("precision", part, what, ": ");
}

std::regex expression_of(const std::string& match) {
  try {
    return compile_pattern(match);
  } catch (const UserError& error) {
    fail("layers", error.what());
  }
}

// The new rule of each listed op.
std::unordered_map<const OpInfo*, CastRule> moved_rules(const OpLists& lists) {
  std::unordered_map<const OpInfo*, CastRule> moved;
  if (lists.empty()) return moved;
  const auto take = [&](const std::vector<std::string>& names, const char* path, CastRule rule) {
    for (const std::string& name : names) {
      const OpInfo* const found = find_op(name);
      if (!found)
        fail(path, fmt::format("there is no op \"{}\"{} (tandem ls ops lists them)", name,
                               did_you_mean(name, op_names())));
      if (found->rule == CastRule::none)
        fail(path,
             fmt::format("precision does not apply to \"{}\": it has no floating-point arithmetic", name));
      if (!moved.emplace(found, rule).second)
        fail("lists", fmt::format("\"{}\" is listed twice; an op has one rule", name));
    }
  };
  take(lists.allow, "lists.allow", CastRule::lower);
  take(lists.deny, "lists.deny", CastRule::fp32);
  take(lists.infer, "lists.infer", CastRule::neutral);
  return moved;
}

}  // namespace

namespace {

void check_parts(const Precision& p) {
  const bool scales = p.scaler.moves() || p.scaler.initial != 1.0;
  require(p.lowers() || !scales, "precision",
          "a scaler with FP32: level O0 needs no loss scaling; use level O1, or scaler none");
  require(
      p.lowers() ||
          (p.masters && p.state_dtype == DType::f32 && !p.lower_batch_norm && !p.round_weight_gradients),
      "precision",
      "level O0 is FP32 throughout: weights, gradients, optimizer state and statistics; use another level");
  require(p.lowers() || (p.layers.empty() && p.lists.empty()), "precision",
          "lists and layers change parts of a 16-bit run, but level O0 is FP32 throughout; use level O1");
  require(p.masters || p.level != Level::O2, "precision",
          "masters are off with O2, which is defined by its FP32 masters; O3 is O2 without them");
  require(!p.masters || p.level != Level::O3, "precision",
          "masters are on with O3, which is defined by having none; O2 is O3 with them");
  require(!p.stochastic_rounding || !p.masters, "precision",
          "stochastic rounding needs weights without masters: FP32 masters are not rounded");
  require(is_16bit(p.state_dtype) || p.state_dtype == DType::f32, "precision",
          "state_dtype must be f32, f16 or bf16, is {}", name_of(p.state_dtype));
}

}  // namespace

namespace {

void check_layer(const LayerRule& rule) {
  for (const DType type : {rule.dtype, rule.multiplies_in(), rule.backward.value_or(rule.dtype)})
    if (!is_16bit(type) && type != DType::f32)
      fail("layers", fmt::format("\"{}\" must run in f32, f16 or bf16, not {}", rule.match, name_of(type)));
  const DType math = rule.multiplies_in(), backward = rule.backward.value_or(rule.dtype);
  if (is_16bit(math) && is_16bit(rule.dtype) && math != rule.dtype)
    fail("layers",
         fmt::format("\"{}\": math in {} and results in {}: two 16-bit types; use one of them, or f32 for "
                     "either",
                     rule.match, name_of(math), name_of(rule.dtype)));
  if (backward != DType::f32 && backward != rule.dtype)
    fail("layers",
         fmt::format("\"{}\": backward in {} and forward in {}: gradients must have the type of forward, "
                     "or f32",
                     rule.match, name_of(backward), name_of(rule.dtype)));
}

}  // namespace

void check(const Precision& precision) {
  require(is_16bit(precision.dtype), "precision", "dtype must be f16 or bf16, is {}",
          name_of(precision.dtype));
  optim::check(precision.scaler);
  check_parts(precision);
  for (const LayerRule& rule : precision.layers) {
    expression_of(rule.match);
    check_layer(rule);
  }
  moved_rules(precision.lists);
}

CastPolicy::CastPolicy(const Precision& precision)
    : level_(precision.level),
      dtype_(precision.dtype),
      round_weight_gradients_(precision.round_weight_gradients),
      lower_batch_norm_(precision.lower_batch_norm),
      moved_(moved_rules(precision.lists)) {
  check(precision);
}

CastRule CastPolicy::rule_of(const OpInfo& info) const {
  if (moved_.empty()) return info.rule;
  const auto found = moved_.find(&info);
  return found == moved_.end() ? info.rule : found->second;
}

Tensor CastPolicy::lowered(const Tensor& tensor) const {
  if (!round_weight_gradients_) {
    if (Tensor copy = working_copy(tensor, dtype_); copy.defined()) return copy;
  }
  return cast(tensor, dtype_);
}

// Rounds f32 inputs that must stay f32 to the 16-bit type; the gradient passes through both casts.
void CastPolicy::round_parameters(const OpInfo& info, std::span<Tensor> inputs) const {
  for (std::size_t i = 0; i < inputs.size() && i < info.roles.size(); ++i) {
    if (info.roles[i] == Role::keep && inputs[i].defined() && inputs[i].dtype() == DType::f32)
      inputs[i] = cast(cast(inputs[i], dtype_), DType::f32);
  }
}

namespace {

void widen_inputs(const OpInfo& info, std::span<Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Role role = i < info.roles.size() ? info.roles[i] : Role::data;
    if (inputs[i].defined() && role == Role::data && is_16bit(inputs[i].dtype()))
      inputs[i] = cast(inputs[i], DType::f32);
  }
}

}  // namespace

DType CastPolicy::prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) {
  // An op whose floating inputs are all `keep` (embedding) has no common dtype: it follows its first input.
  if (!is_floating(common) || common == DType::f64) return common;
  if (lower_batch_norm_ && info.traits.kind == OpKind::batch_norm) round_parameters(info, inputs);
  const CastRule rule = rule_of(info);
  const bool lower = rule == CastRule::lower ||
                     (level_ >= Level::O2 && (rule == CastRule::neutral || rule == CastRule::widest));
  if (lower) {
    convert_inputs(info, inputs, dtype_, [this](const Tensor& input) { return lowered(input); });
    return dtype_;
  }
  require(rule != CastRule::banned, info.name,
          "its gradient does not fit 16 bits; use the form that takes logits, or leave the region with "
          "amp::Autocast::off()");
  if (rule != CastRule::fp32) return common;
  // Ops that declare `fp32` read any type and write f32; ops moved to that rule need f32 inputs.
  if (info.rule != CastRule::fp32) widen_inputs(info, inputs);
  return DType::f32;
}

DType CastPolicy::for_product(const OpInfo& info, DType given) const {
  return given == DType::f64 || moved_.contains(&info) ? given : dtype_;
}

namespace {

Precision of_layer(Precision precision, DType dtype) {
  if (dtype == DType::f32) {
    precision = Precision::fp32();
  } else {
    precision.dtype = dtype;
  }
  precision.layers.clear();
  return precision;
}

// f32 inside a 16-bit region: widens the inputs of an op when all are 16-bit. Mixed inputs already have f32
// as common type, and kernels read them unchanged.
class FullPrecision final : public PrecisionPolicy {
 public:
  DType prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) override {
    if (!is_16bit(common) || info.rule == CastRule::none) return common;
    widen_inputs(info, inputs);
    return DType::f32;
  }
};

// Products that compute in one type and give results of another; `others` decides about all other ops.
class OwnMath final : public PrecisionPolicy {
 public:
  OwnMath(std::shared_ptr<PrecisionPolicy> others, DType math, DType result)
      : others_(std::move(others)), math_(math), result_(result) {}

  DType prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) override {
    if (info.rule != CastRule::lower || info.traits.one_type || !is_floating(common) || common == DType::f64)
      return others_->prepare(info, inputs, common);
    convert_inputs(info, inputs, math_, [this](const Tensor& input) {
      const Tensor copy = is_16bit(math_) ? working_copy(input, math_) : Tensor();
      return copy.defined() ? copy : cast(input, math_);
    });
    return result_;
  }
  DType for_product(const OpInfo& info, DType given) const override {
    return is_16bit(math_) && given != DType::f64 ? math_ : others_->for_product(info, given);
  }

 private:
  const std::shared_ptr<PrecisionPolicy> others_;
  const DType math_, result_;
};

std::shared_ptr<PrecisionPolicy> policy_of(const Precision& precision, const LayerRule& rule) {
  std::shared_ptr<PrecisionPolicy> policy;
  if (rule.dtype == DType::f32) {
    policy = std::make_shared<FullPrecision>();
  } else {
    policy = std::make_shared<CastPolicy>(of_layer(precision, rule.dtype));
  }
  if (rule.multiplies_in() == rule.dtype) return policy;
  return std::make_shared<OwnMath>(std::move(policy), rule.multiplies_in(), rule.dtype);
}

}  // namespace

LayerPolicies::LayerPolicies(const Precision& precision, nn::Module& model) {
  for (const LayerRule& rule : precision.layers) {
    const std::regex expression = expression_of(rule.match);
    const Layer layer{policy_of(precision, rule), rule.widens_gradients()};
    bool matched = false;
    std::vector<std::string> paths;
    model.visit([&](const std::string& path, nn::Module& module) {
      paths.push_back(path);
      if (!std::regex_search(path, expression)) return;
      matched = true;
      layers_[&module] = layer;
    });
    if (!matched)
      fail("layers", fmt::format("\"{}\" matches none of the model's {} layers{}", rule.match, paths.size(),
                                 did_you_mean(rule.match, paths)));
  }
}

const LayerPolicies::Layer* LayerPolicies::find(const nn::Module& module) const {
  const auto found = layers_.find(&module);
  return found == layers_.end() ? nullptr : &found->second;
}

ResolvedPrecision::ResolvedPrecision(const Precision& precision) {
  require(precision.layers.empty(), "precision",
          "rules for layers need the model: give it as second argument");
  if (precision.lowers()) policy_ = std::make_unique<CastPolicy>(precision);
}

ResolvedPrecision::ResolvedPrecision(const Precision& precision, nn::Module& model) {
  if (!precision.lowers()) return;
  policy_ = std::make_unique<CastPolicy>(precision);
  if (!precision.layers.empty()) layers_ = std::make_unique<LayerPolicies>(precision, model);
}

ResolvedPrecision::ResolvedPrecision(std::shared_ptr<const PlannedTypes> types) : types_(std::move(types)) {}

// Opens a scope around each module with its own policy, unless another Autocast was entered meanwhile: the
// innermost counts. A forward that throws leaves scopes open, which this closes, innermost first.
class Autocast::LayerSwitch final : public nn::ModuleObserver {
 public:
  LayerSwitch(const LayerPolicies& layers, const PrecisionPolicy* base)
      : layers_(layers), base_(base), observed_(*this) {}
  ~LayerSwitch() override {
    while (!open_.empty()) open_.pop_back();
  }

  void enter(nn::Module& module) override {
    const LayerPolicies::Layer* const layer = layers_.find(module);
    if (!layer || !innermost()) return;
    open_.push_back({&module, layer->policy.get(), std::make_unique<PrecisionScope>(layer->policy.get()),
                     std::make_unique<WideGradients>(layer->widens_gradients)});
  }
  void leave(nn::Module& module, const Tensor&) override {
    if (!open_.empty() && open_.back().module == &module && innermost()) open_.pop_back();
  }

 private:
  bool innermost() const { return PrecisionScope::active() == (open_.empty() ? base_ : open_.back().policy); }

  struct Open {
    const nn::Module* module;
    const PrecisionPolicy* policy;
    std::unique_ptr<PrecisionScope> scope;
    std::unique_ptr<WideGradients> gradients;
  };
  const LayerPolicies& layers_;
  const PrecisionPolicy* const base_;
  std::vector<Open> open_;
  nn::ModuleObserverScope observed_;
};

Autocast::Autocast(const Precision& precision) : own_(std::make_unique<ResolvedPrecision>(precision)) {
  enter(*own_);
}
Autocast::Autocast(const Precision& precision, nn::Module& model)
    : own_(std::make_unique<ResolvedPrecision>(precision, model)) {
  enter(*own_);
}
Autocast::Autocast(const ResolvedPrecision& resolved, std::size_t phase) { enter(resolved, phase); }

void Autocast::enter(const ResolvedPrecision& resolved, std::size_t phase) {
  if (resolved.types_) {
    planned_ = std::make_unique<PlannedPolicy>(*resolved.types_, phase);
    scope_ = std::make_unique<PrecisionScope>(planned_.get());
    return;
  }
  scope_ = std::make_unique<PrecisionScope>(resolved.policy_.get());
  if (resolved.layers_) layers_ = std::make_unique<LayerSwitch>(*resolved.layers_, resolved.policy_.get());
}

void Autocast::finish() const {
  if (planned_) planned_->finish();
}

Autocast::~Autocast() {
  layers_.reset();
  scope_.reset();
}

}  // namespace tandem::amp
