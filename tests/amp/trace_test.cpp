// Tracing a forward pass into a graph, and running a plan without it.
#include "amp/trace.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "amp/plan/rules.h"
#include "amp/planned_policy.h"
#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "core/error.h"
#include "tests/support/errors.h"

using namespace tandem;
using amp::plan::Assignment;
using amp::plan::Kind;
using amp::plan::OpKey;

namespace {

Tensor numbers(const Shape& shape, int seed) {
  std::vector<float> values;
  for (Index i = 0; i < shape.numel(); ++i)
    values.push_back(static_cast<float>((i * 7 + seed * 3) % 11 - 5) / 8.0F);
  return Tensor::from(values, shape);
}

// y = softmax(x W) twice, the second time from a view of the first's result.
class Layer final : public nn::Module {
 public:
  explicit Layer(int seed) { weight_ = add_parameter("weight", Parameter(numbers({6, 6}, seed))); }
  Tensor forward(const Tensor& x) override { return softmax(matmul(x, weight_), -1); }

 private:
  Parameter weight_;
};

class Net final : public nn::Module {
 public:
  Net()
      : one_(add_child("one", std::make_shared<Layer>(1))),
        two_(add_child("two", std::make_shared<Layer>(2))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = (*one_)(x);
    const Tensor left = relu((*two_)(reshape(y, {2, 3, 6})));
    const Tensor right = (*two_)(permute(y, {1, 0}));
    return add(left, reshape(right, {2, 3, 6}));
  }

 private:
  std::shared_ptr<Layer> one_, two_;
};

// The same net, with a step more before the end where asked for.
Tensor loss_of(Net& net, const Tensor& x, bool more = false) {
  const Tensor y = net(x);
  return mean(more ? tanh(y) : y);
}

amp::ResolvedPrecision plan_for(Net& net, const amp::plan::Graph& graph, const Assignment& assignment,
                                bool share, const amp::Precision& precision = amp::Precision::amp_bf16()) {
  const std::size_t ops = graph.ops.size();
  return amp::ResolvedPrecision(std::make_shared<const amp::PlannedTypes>(
      amp::plan::plan_of(graph, assignment, std::vector<amp::plan::Why>(ops, amp::plan::Why::rule),
                         precision.dtype, share, std::vector<bool>(ops)),
      "plan.json", precision, net));
}

struct Outcome {
  double loss;
  std::vector<float> gradients;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome run(Net& net, const Tensor& x, const amp::ResolvedPrecision& plan) {
  net.clear_gradients();
  Tensor loss;
  {
    const amp::Autocast autocast(plan);
    loss = loss_of(net, x);
    autocast.finish();
  }
  backward(loss);
  Outcome outcome{.loss = loss.item(), .gradients = {}};
  for (const Parameter& parameter : net.parameters())
    for (const float value : parameter.gradient().to_vector<float>()) outcome.gradients.push_back(value);
  return outcome;
}

}  // namespace

TEST_CASE("a forward is a graph: keys, rules, and what each op reads", "[plan][trace]") {
  Net net;
  const Tensor x = numbers({6, 6}, 3);
  const amp::TracedModel traced = amp::trace(net, [&] { return loss_of(net, x); });
  const auto& graph = traced.graph;
  std::vector<std::string> keys;
  for (const auto& op : graph.ops) keys.push_back(to_string(op.key));
  CHECK(keys == std::vector<std::string>{"(input)", "one.weight", "one matmul", "one softmax", "reshape",
                                         "two.weight", "two matmul", "two softmax", "relu", "permute",
                                         "two matmul #1", "two softmax #1", "reshape #1", "add",
                                         "loss mean"});
  const auto at = [&](const std::string& key) -> const amp::plan::Op& {
    return graph.ops[static_cast<std::size_t>(std::ranges::find(keys, key) - keys.begin())];
  };
  const auto reads = [&](const std::string& key) {
    std::vector<std::string> names;
    for (const auto& read : at(key).reads) names.push_back(keys[static_cast<std::size_t>(read.op)]);
    return names;
  };
  CHECK(reads("one matmul") == std::vector<std::string>{"(input)", "one.weight"});
  CHECK(reads("two matmul #1") == std::vector<std::string>{"permute", "two.weight"});
  CHECK(reads("add") == std::vector<std::string>{"relu", "reshape #1"});
  CHECK(at("(input)").kind == Kind::input);
  CHECK(at("two.weight").kind == Kind::parameter);
  CHECK_FALSE(at("(input)").results.front().gradient);
  CHECK(at("one matmul").results.front() == amp::plan::Result{.elements = 36, .gradient = true});
  CHECK(at("reshape").view);
  CHECK(at("permute").view);  // as far as types go
  CHECK(at("one softmax").keeps_output);
  CHECK_FALSE(at("one matmul").keeps_output);
  CHECK(at("loss mean").fetched);
  CHECK(graph.ties.empty());
  CHECK(traced.modules ==
        std::vector<std::string>{"|Net|", "one|Layer|weight[6,6]", "two|Layer|weight[6,6]"});
}

TEST_CASE("an op whose kernel keeps the type of what it reads is tied to it, and is given the plan's",
          "[plan][policy]") {
  Net net;
  const Tensor x = leaf(numbers({6, 6}, 3)), rows = Tensor::from(std::vector<std::int64_t>{4, 0}, {2});
  DType found = DType::f64;
  const auto forward = [&] {
    const Tensor y = index_select(relu(x), rows, 0);
    found = y.dtype();
    return mean(y);
  };
  const auto graph = amp::trace(net, forward).graph;
  CHECK(graph.ties == std::vector<std::pair<int, int>>{{1, 2}});
  Assignment types = amp::plan::full_precision(graph);
  types[2].out = true;  // as a policy by lists may have it
  const amp::ResolvedPrecision plan = plan_for(net, graph, types, true);
  const amp::Autocast autocast(plan);
  forward();
  CHECK(found == DType::bf16);
  autocast.finish();
}

TEST_CASE("plans ignore ops that move values or run without a tape", "[plan][policy]") {
  Net net;
  const Tensor x = numbers({6, 6}, 3);
  const auto graph = amp::trace(net, [&] { return loss_of(net, x); }).graph;
  const amp::ResolvedPrecision plan = plan_for(net, graph, amp::plan::rules(graph), true);
  const amp::Autocast autocast(plan);
  Tensor y = net(x);
  y = reshape(permute(y, {1, 0, 2}), {36});
  {
    const NoGrad no_grad;
    CHECK(relu(y).dtype() == y.dtype());
  }
  mean(y);
  autocast.finish();
}

TEST_CASE("other layers, inputs and shapes have other digests", "[plan][trace]") {
  Net net;
  const auto traced = [&](const Shape& shape, bool more) {
    return amp::trace(net, [&] { return loss_of(net, numbers(shape, 1), more); });
  };
  const auto one = traced({6, 6}, false), again = traced({6, 6}, false), longer = traced({6, 6}, true);
  CHECK(one.model_digest() == again.model_digest());
  CHECK(one.shapes_digest() == again.shapes_digest());
  CHECK(one.model_digest() != longer.model_digest());
  auto renamed = one;
  renamed.modules[1] += "1";
  CHECK(renamed.model_digest() != one.model_digest());
}

TEST_CASE("the cast rules as a plan are level O1 to the bit", "[plan][policy]") {
  const Tensor x = numbers({6, 6}, 3);
  for (const bool fp16 : {false, true}) {
    const amp::Precision precision = fp16 ? amp::Precision::amp_fp16() : amp::Precision::amp_bf16();
    Net a, b;
    const auto graph = amp::trace(b, [&] { return loss_of(b, x); }).graph;
    const amp::ResolvedPrecision o1(precision, a);
    CHECK(run(a, x, o1) == run(b, x, plan_for(b, graph, amp::plan::rules(graph), false, precision)));
  }
}

TEST_CASE("products read and write the types that a plan gives them", "[plan][policy]") {
  const Tensor x = numbers({6, 6}, 3);
  Net net;
  const auto graph = amp::trace(net, [&] { return loss_of(net, x); }).graph;
  struct Watch final : OpObserver {
    std::vector<std::string> seen;
    int casts = 0;
    void after_forward(const OpInfo& info, std::span<const Tensor> in, std::span<const Tensor> out) override {
      casts += std::string(info.name) == "cast";
      if (std::string(info.name) != "matmul") return;
      seen.push_back(std::string(name_of(in[0].dtype())) + " " + std::string(name_of(in[1].dtype())) + " " +
                     std::string(name_of(out[0].dtype())));
    }
  };
  const auto watched = [&](const Assignment& assignment, bool share) {
    Watch watch;
    const ObserverScope observed(watch);
    const amp::ResolvedPrecision plan = plan_for(net, graph, assignment, share);
    const amp::Autocast autocast(plan);
    loss_of(net, x);
    autocast.finish();
    return std::pair(watch.seen, watch.casts);
  };
  Assignment types = amp::plan::full_precision(graph);
  CHECK(watched(types, true) ==
        std::pair(std::vector<std::string>{"f32 f32 f32", "f32 f32 f32", "f32 f32 f32"}, 0));
  types[6] = {.operands = true, .out = false};
  types[10] = {.operands = false, .out = true};
  CHECK(watched(types, true).first ==
        std::vector<std::string>{"f32 f32 f32", "bf16 bf16 f32", "f32 f32 bf16"});
}

TEST_CASE("a cast that several products read is made once, and its gradient is theirs together",
          "[plan][policy]") {
  // Two products of one tensor.
  class Fork final : public nn::Module {
   public:
    Fork()
        : a_(add_parameter("a", Parameter(numbers({6, 6}, 1)))),
          b_(add_parameter("b", Parameter(numbers({6, 6}, 2)))) {}
    Tensor forward(const Tensor& x) override {
      const Tensor y = softmax(mul(x, x), -1);
      return add(matmul(y, a_), matmul(y, b_));
    }

   private:
    Parameter a_, b_;
  };
  struct Count final : OpObserver {
    int casts = 0, before_backward_casts = 0;
    void after_forward(const OpInfo& info, std::span<const Tensor>, std::span<const Tensor>) override {
      casts += std::string(info.name) == "cast";
    }
  };
  Fork fork;
  const Tensor x = leaf(numbers({4, 6}, 5));
  const auto forward = [&] { return mean(fork(x)); };
  const auto graph = amp::trace(fork, forward).graph;
  const Assignment rules = amp::plan::rules(graph);
  const auto casts = [&](bool share) {
    const amp::ResolvedPrecision plan(std::make_shared<const amp::PlannedTypes>(
        amp::plan::plan_of(graph, rules, std::vector<amp::plan::Why>(graph.ops.size(), amp::plan::Why::rule),
                           DType::bf16, share, std::vector<bool>(graph.ops.size())),
        "plan.json", amp::Precision::amp_bf16(), fork));
    Count count;
    const ObserverScope observed(count);
    const amp::Autocast autocast(plan);
    const Tensor loss = forward();
    clear_gradient_of(x);
    {
      const PrecisionScope none(nullptr);
      backward(loss);
    }
    return std::pair(count.casts, gradient_of(x).to_vector<float>());
  };
  const auto each = casts(false), one = casts(true);
  CHECK(each.first == one.first + 1);
  REQUIRE(each.second.size() == one.second.size());
  for (std::size_t i = 0; i < one.second.size(); ++i)
    CHECK(one.second[i] == Approx(each.second[i]).epsilon(0.02).margin(1e-6));
}

TEST_CASE("a scope begins at the first op of its plan, whatever became of the one before", "[plan][policy]") {
  const Tensor x = numbers({6, 6}, 3);
  Net net;
  const auto graph = amp::trace(net, [&] { return loss_of(net, x); }).graph;
  const amp::ResolvedPrecision plan = plan_for(net, graph, amp::plan::rules(graph), true);
  {
    const amp::Autocast autocast(plan);
    net(x);
    CHECK_FAILS(UserError, autocast.finish(), "this forward ends before it");
  }
  {
    const amp::Autocast autocast(plan);
    CHECK_FAILS(
        UserError, loss_of(net, x, true),
        "op 11 is loss mean in plan.json, loss tanh in this forward; make it again: tandem plan CONFIG");
  }
  {
    const amp::Autocast outer(plan);
    const Tensor y = net(x);
    {
      const amp::Autocast off = amp::Autocast::off();  // what happens in there is none of the plan's
      tanh(y);
    }
    mean(y);
    outer.finish();
  }
  CHECK(run(net, x, plan).loss == run(net, x, plan).loss);
}
