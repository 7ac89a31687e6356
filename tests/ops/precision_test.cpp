// Each row under each level, 16-bit type and list: types of results and gradients, and values against the
// same op on explicitly cast inputs. Expectations come from the tables here, which are those of the design,
// not from the policy.
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <set>

#include "amp/autocast.h"
#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "tests/ops/harness.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"
#include "tests/support/tolerance.h"

using namespace tandem;
using namespace tandem::test;

namespace {

using Names = std::vector<std::string>;

const std::map<CastRule, Names>& rule_table() {
  static const std::map<CastRule, Names> table = {
      {CastRule::lower,
       {"additive_attention", "attention", "conv2d", "conv2d_filter_gradient", "conv2d_input_gradient",
        "conv_transpose2d", "gru", "linear", "linear_cross_entropy", "lstm", "masked_softmax", "matmul",
        "prelu", "rnn", "sum_of_outer_products"}},
      {CastRule::fp32,
       {"exp", "expm1", "log", "log1p", "pow", "pow_scalar", "reciprocal", "rsqrt", "softplus", "square",
        // reductions
        "cumsum", "logsumexp", "mean", "norm", "prod", "sum", "var",
        // normalisation over a sample, softmax, ranking
        "group_norm", "layer_norm", "log_softmax", "rms_norm", "softmax", "sort", "topk",
        // losses
        "bce_with_logits", "cross_entropy", "dice_loss", "focal_loss", "huber_loss", "kl_div", "l1_loss",
        "mse_loss", "nll_loss", "smooth_l1_loss", "soft_cross_entropy"}},
      {CastRule::widest,
       {"add", "concat", "div", "equal", "greater", "greater_equal", "lerp", "lerp_scalar", "less",
        "less_equal", "maximum", "minimum", "mul", "not_equal", "scatter_add", "stack", "sub", "where"}},
      {CastRule::neutral,
       {"abs", "add_scalar", "clamp", "cos", "div_scalar", "elu", "erf", "gelu", "gelu_tanh", "hardsigmoid",
        "hardswish", "leaky_relu", "mul_scalar", "neg", "relu", "relu6", "rotary", "scalar_div", "scalar_sub",
        "sigmoid", "sign", "silu", "sin", "sqrt", "swiglu", "tanh",
        // pooling and resizing
        "adaptive_avg_pool2d", "adaptive_avg_pool2d_gradient", "avg_pool2d", "avg_pool2d_gradient",
        "global_avg_pool2d", "global_avg_pool2d_gradient", "max_pool2d", "max_pool2d_gradient",
        "max_pool2d_select", "resize2d", "resize2d_adjoint",
        // data movement and choice
        "argmax", "argmin", "broadcast_to", "dropout", "embedding", "flip", "gather", "index_select", "max",
        "min", "pad", "permute", "reshape", "slice", "split", "unbind",
        // f32 parameters and statistics
        "batch_norm_infer", "batch_norm_train", "residual_norm"}},
      {CastRule::banned, {"bce_loss"}},
      {CastRule::none,
       {"bias_gradient", "cast", "index_add", "match_boxes", "mine_negatives", "one_hot", "random_normal",
        "random_uniform"}},
  };
  return table;
}

// Floating inputs of the rows that are never cast: parameters of normalisation, the table that embeddings
// are gathered from, and targets.
const std::map<std::string, std::set<std::size_t>>& kept_inputs() {
  static const std::map<std::string, std::set<std::size_t>> table = {{"additive_attention", {3, 4, 5}},
                                                                     {"batch_norm_infer", {1, 2}},
                                                                     {"batch_norm_train", {1, 2}},
                                                                     {"group_norm", {1, 2}},
                                                                     {"layer_norm", {1, 2}},
                                                                     {"residual_norm", {0, 2, 3}},
                                                                     {"rms_norm", {1}},
                                                                     {"embedding", {0}},
                                                                     {"bce_loss", {1}},
                                                                     {"bce_with_logits", {1}},
                                                                     {"focal_loss", {1}},
                                                                     {"huber_loss", {1}},
                                                                     {"kl_div", {1}},
                                                                     {"l1_loss", {1}},
                                                                     {"mse_loss", {1}},
                                                                     {"smooth_l1_loss", {1}},
                                                                     {"soft_cross_entropy", {1}}};
  return table;
}

// Names of ops that stand in no rule, or in several.
Names badly_ruled(const std::vector<const OpInfo*>& infos, const std::map<CastRule, Names>& table) {
  Names bad;
  for (const OpInfo* info : infos) {
    int places = 0;
    bool right = false;
    for (const auto& [rule, names] : table) {
      for (const std::string& name : names) {
        if (name != info->name) continue;
        ++places;
        right = rule == info->rule;
      }
    }
    if (places != 1 || !right) bad.emplace_back(info->name);
  }
  return bad;
}

CastRule rule_in_table(const std::string& op) {
  for (const auto& [rule, names] : rule_table()) {
    if (std::ranges::count(names, op)) return rule;
  }
  FAIL("no cast rule is written down for " << op);
  return CastRule::none;
}

bool is_data(const Row& row, std::size_t input, const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return false;
  // What a recurrent layer has depends on the row: its biases and c_0.
  if (row.family == "rnn" && row.draws[input].parameter) return false;
  // What is f32 whatever else is said, such as boxes.
  if (input < row.draws.size() && row.draws[input].dtype) return false;
  const auto kept = kept_inputs().find(row.op);
  return kept == kept_inputs().end() || !kept->second.contains(input);
}

// The types given to the data inputs: each in turn, the last for the rest.
using InputTypes = std::vector<DType>;

TensorList inputs_of(const Row& row, const InputTypes& types) {
  TensorList inputs = make_inputs(row, row.cases.front(), DType::f32);
  std::size_t seen = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_data(row, i, inputs[i])) inputs[i] = cast(inputs[i], types[std::min(seen++, types.size() - 1)]);
  }
  return inputs;
}

struct Setting {
  amp::Precision precision;
  std::optional<CastRule> moved_to;  // the op of the row, by a list
};

amp::Precision precision_of(const Setting& setting, const Row& row) {
  amp::Precision precision = setting.precision;
  if (setting.moved_to == CastRule::lower) precision.lists.allow = {row.op};
  if (setting.moved_to == CastRule::fp32) precision.lists.deny = {row.op};
  if (setting.moved_to == CastRule::neutral) precision.lists.infer = {row.op};
  return precision;
}

// The type an op computes in, by the design's table of rules and of levels.
DType expected_type(CastRule rule, const amp::Precision& precision, DType widest) {
  if (widest == DType::f64 || !is_floating(widest)) return widest;
  switch (rule) {
    case CastRule::lower:
      return precision.dtype;
    case CastRule::fp32:
      return DType::f32;
    case CastRule::widest:
    case CastRule::neutral:
      return precision.level == amp::Level::O1 ? widest : precision.dtype;
    default:
      return widest;
  }
}

DType expected_result(const Row& row, DType computed) {
  switch (row.result) {
    case Result::same:
      return computed;
    case Result::wide:
      return is_16bit(computed) ? DType::f32 : computed;
    case Result::boolean:
      return DType::boolean;
    case Result::i64:
      return DType::i64;
    case Result::f32:
      break;
  }
  return DType::f32;
}

// The same bits. On a GPU, where a kernel may compute faster on narrow inputs, the same within the dtype's
// tolerance.
bool same_tensor(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (a.numel() == 0) return true;
  if (test_device().type != DeviceType::cpu && is_floating(a.dtype())) {
    const auto x = a.to_vector<double>(), y = b.to_vector<double>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!close(x[i], y[i], tolerance_of(a.dtype()))) return false;
    }
    return true;
  }
  return std::memcmp(a.to(Device{}).raw(), b.to(Device{}).raw(), a.bytes()) == 0;
}

TensorList leaves_of(const TensorList& inputs) {
  TensorList leaves;
  for (const Tensor& input : inputs) leaves.push_back(is_floating(input.dtype()) ? leaf(input) : input);
  return leaves;
}

TensorList gradients_of(const Tensor& y, const TensorList& leaves) {
  TensorList wanted;
  for (const Tensor& t : leaves) {
    if (t.requires_grad()) wanted.push_back(t);
  }
  const Tensor dy = random_tensor(y.shape(), y.dtype(), 99, 0.5, 1.5);
  return gradients(std::span(&y, 1), std::span(&dy, 1), wanted);
}

// Looks at the op of a row among others: what it was given, and what it gave.
class OwnTypes final : public OpObserver {
 public:
  OwnTypes(const Row& row, CastRule rule, const amp::Precision& precision)
      : row_(row), rule_(rule), precision_(precision) {}

  void before_forward(const OpInfo& info, std::span<const Tensor> inputs) override {
    if (std::string(info.name) != row_.op) return;
    widest_ = DType::boolean;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].defined() && !(i < info.roles.size() && info.roles[i] == keep))
        widest_ = promote(widest_, inputs[i].dtype());
    }
  }
  void after_forward(const OpInfo& info, std::span<const Tensor>, std::span<const Tensor> outputs) override {
    if (std::string(info.name) != row_.op) return;
    ++seen;
    const DType computed = expected_type(rule_, precision_, widest_);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined()) continue;
      const bool wide = row_.wide_output == i;
      CHECK(outputs[i].dtype() == (wide ? wide_of(computed) : expected_result(row_, computed)));
    }
  }

  int seen = 0;

 private:
  const Row& row_;
  CastRule rule_;
  amp::Precision precision_;
  DType widest_ = DType::boolean;
};

// Which inputs several runs of the op of a row were given.
class SharedInputs final : public OpObserver {
 public:
  explicit SharedInputs(const Row& row) : row_(row) {}

  void before_forward(const OpInfo& info, std::span<const Tensor> inputs) override {
    if (std::string(info.name) != row_.op) return;
    for (const Tensor& input : inputs) {
      if (input.defined()) ++runs_with_[input.raw()];
    }
  }
  bool has(const Tensor& input) const {
    const auto found = runs_with_.find(input.raw());
    return found != runs_with_.end() && found->second > 1;
  }

 private:
  const Row& row_;
  std::map<const void*, int> runs_with_;
};

// Whether the row runs its op alone. Where it does not, the rules of the other ops decide too, and it is
// compared as a whole only where they leave types alone.
bool runs_alone(const Row& row) {
  auto executed = executed_ops(row);
  executed.erase(row.op);
  executed.erase("cast");
  return executed.empty();
}

void check_refused(const Row& row, const TensorList& inputs) {
  CHECK_FAILS(UserError, row.run(inputs), "logits");
  CHECK_FAILS(UserError, row.run(inputs), "Autocast::off");
}

void check_setting(const Row& row, const Setting& setting, const InputTypes& types) {
  const amp::Precision precision = precision_of(setting, row);
  const CastRule rule = setting.moved_to.value_or(rule_in_table(row.op));
  const TensorList inputs = inputs_of(row, types), leaves = leaves_of(inputs);
  std::string given;
  for (const Tensor& input : inputs) given += std::string(name_of(input.dtype())) + " ";
  INFO(to_string(row) << " of " << given << "at O" << static_cast<int>(precision.level) << " "
                      << name_of(precision.dtype) << ", " << (setting.moved_to ? "moved to " : "")
                      << name_of(rule));
  DType widest = DType::boolean;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_data(row, i, inputs[i])) widest = promote(widest, inputs[i].dtype());
  }

  const bool alone = runs_alone(row);
  SharedInputs shared(row);
  Tensor y;
  {
    const amp::Autocast autocast(precision);
    if (rule == CastRule::banned && is_floating(widest) && widest != DType::f64)
      return check_refused(row, leaves);
    if (!alone && (setting.moved_to || precision.level != amp::Level::O1)) {
      OwnTypes types_seen(row, rule, precision);
      const ObserverScope observed(types_seen);
      row.run(leaves);
      CHECK(types_seen.seen > 0);
      return;
    }
    const ObserverScope observed(shared);
    y = row.run(leaves);
  }
  const DType computed = expected_type(rule, precision, widest);
  TensorList by_hand, hand_leaves = leaves_of(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    by_hand.push_back(is_data(row, i, inputs[i]) ? cast(hand_leaves[i], computed) : hand_leaves[i]);
  const Tensor expected = row.run(by_hand);
  if (is_floating(widest)) CHECK(y.dtype() == expected_result(row, computed));
  CHECK(same_tensor(y, expected));
  if (!row.gradient) return;
  const TensorList got = gradients_of(y, leaves), wanted = gradients_of(expected, hand_leaves);
  std::size_t next = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].requires_grad()) continue;
    INFO("gradient of input " << i);
    if (got[next].defined()) CHECK(got[next].dtype() == inputs[i].dtype());
    // An op that declares fp32 gives gradients in the type it was given; moved to another 16-bit type, that
    // is a rounding more.
    const bool rounded_twice = rule_in_table(row.op) == CastRule::fp32 && is_16bit(computed) &&
                               is_16bit(inputs[i].dtype()) && inputs[i].dtype() != computed;
    // Each run of the op casts for itself what several read: its gradients are added up in the type it had.
    const bool added_wide = shared.has(leaves[i]) && inputs[i].dtype() != computed;
    if ((rounded_twice || added_wide) && got[next].defined()) {
      CHECK(normalised_error(got[next].to_vector<double>(), wanted[next].to_vector<double>()) <=
            tolerance_of(DType::bf16).relative);
    } else {
      CHECK(same_tensor(got[next], wanted[next]));
    }
    ++next;
  }
}

// Lists move ops on the CPU alone: they choose a dtype, and every dtype is run on other devices as it is.
std::vector<Setting> settings_of(const Row& row) {
  std::vector<Setting> settings;
  const bool movable = rule_in_table(row.op) != CastRule::none && test_device().type == DeviceType::cpu;
  for (const DType low : {DType::f16, DType::bf16}) {
    for (const amp::Level level : {amp::Level::O1, amp::Level::O2}) {
      const amp::Precision precision{.level = level, .dtype = low};
      settings.push_back({precision, {}});
      if (!movable) continue;
      for (const CastRule to : {CastRule::lower, CastRule::fp32, CastRule::neutral})
        settings.push_back({precision, to});
    }
  }
  return settings;
}

}  // namespace

TEST_CASE("rows under every level, type and list equal the op on inputs cast by hand", "[ops][precision]") {
  const OneThread one;
  for (const Row* asked : asked_rows()) {
    const Row& row = *asked;
    DYNAMIC_SECTION(to_string(row)) {
      for (const Setting& setting : settings_of(row)) {
        const DType low = setting.precision.dtype, other = low == DType::f16 ? DType::bf16 : DType::f16;
        for (const InputTypes& types :
             {InputTypes{DType::f32}, {low}, {DType::f32, low}, {low, DType::f32}, {other}, {low, other}})
          check_setting(row, setting, types);
      }
    }
  }
}

TEST_CASE("f64 and integers are the same under every level and list", "[ops][precision]") {
  const OneThread one;
  for (const Row* asked : asked_rows()) {
    const Row& row = *asked;
    std::vector<DType> types = {DType::f64};
    if (row.integers) types.insert(types.end(), {DType::i64, DType::i32, DType::u8});
    for (const DType dtype : types) {
      const TensorList inputs = make_inputs(row, row.cases.front(), dtype);
      const Tensor expected = row.run(inputs);
      for (const Setting& setting : settings_of(row)) {
        const amp::Autocast autocast(precision_of(setting, row));
        if (same_tensor(row.run(inputs), expected)) continue;
        FAIL_CHECK(to_string(row) << " in " << name_of(dtype) << " at O"
                                  << static_cast<int>(setting.precision.level));
      }
    }
  }
}

TEST_CASE("every op stands under one rule of the table, the one it declares", "[ops][precision]") {
  CHECK(badly_ruled(all_op_infos(), rule_table()) == Names{});
  std::size_t listed = 0;
  for (const auto& [rule, names] : rule_table()) listed += names.size();
  CHECK(listed == all_op_infos().size());  // no name of an op that is gone
}

TEST_CASE("control: an op without a rule, with two, or under a wrong one is named", "[ops][precision]") {
  const OpInfo fresh{"op_without_rule", CastRule::neutral}, relu{"relu", CastRule::fp32};
  CHECK(badly_ruled({&fresh}, rule_table()) == Names{"op_without_rule"});
  CHECK(badly_ruled({&relu}, rule_table()) == Names{"relu"});
  auto twice = rule_table();
  twice[CastRule::lower].emplace_back("relu");
  const OpInfo sound{"relu", CastRule::neutral};
  CHECK(badly_ruled({&sound}, twice) == Names{"relu"});
  CHECK(badly_ruled({&sound}, rule_table()) == Names{});
}
