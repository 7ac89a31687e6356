// Ops from outside the tree in reports on a model: summary, profile, plan, advice, casts by name, ONNX.
#include <catch2/catch.hpp>

#include "amp/autocast.h"
#include "amp/plan/rules.h"
#include "amp/planned_policy.h"
#include "amp/trace.h"
#include "autograd/apply.h"
#include "autograd/engine.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/random.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/matmul.h"
#include "core/random.h"
#include "export/onnx.h"
#include "models/summary.h"
#include "nn/layers.h"
#include "studies/advise/products.h"
#include "studies/profile/profile.h"
#include "tests/support/errors.h"

using namespace tandem;

namespace {

constexpr Index kSamples = 3, kInputs = 4, kUnits = 5;

// x [N,I] · weight [I,O] → [N,O].
struct OwnProduct {
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor>) {
    return {ProductSize{.m = inputs[0].size(0), .n = inputs[1].size(1), .k = inputs[1].size(0)}};
  }
  static constexpr OpInfo info{"own_product",
                               CastRule::lower,
                               {.kind = OpKind::product, .family = "own", .products = products, .weight = 1}};
  struct In {
    Tensor x, weight;
  };
  using Saved = In;
  struct Out {
    Tensor y;
  };
  Out forward(Context& context, Saved& saved, const In& in) const {
    saved = in;
    const Tensor y = context.empty({in.x.size(0), in.weight.size(1)});
    context.backend.matmul().matmul(in.x, in.weight, {}, y, {});
    return {y};
  }
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const {
    In dx;
    if (needs[0]) dx.x = matmul(dy.y, saved.weight, false, true);
    if (needs[1]) dx.weight = matmul(saved.x, dy.y, true, false);
    return dx;
  }
};

// -x, under a name that ONNX has.
struct OwnNegation {
  static constexpr OpInfo info{"own_negation", CastRule::neutral, {.kind = OpKind::negates, .onnx = "Neg"}};
  struct In {
    Tensor x;
  };
  struct Saved {};
  struct Out {
    Tensor y;
  };
  Out forward(Context& context, Saved&, const In& in) const {
    const Tensor y = context.empty(in.x.shape());
    context.backend.elementwise().pointwise(formula_id<formulas::Neg>(), Scalars{}, {&in.x, 1}, y);
    return {y};
  }
  In backward(const Saved&, const Out& dy, const Needs&) const { return {neg(dy.y)}; }
};

struct Own final : nn::Module {
  Own() {
    weight = add_parameter("weight", Parameter(nn::parameter_memory({kInputs, kUnits})));
    nn::init::normal(weight.value(), 0.0, 0.5);
  }
  Tensor forward(const Tensor& x) override {
    return apply(OwnNegation{}, {apply(OwnProduct{}, {x, weight.tensor()}).y}).y;
  }
  Parameter weight;
};

struct Model {
  Model() {
    const RandomScope random(1, 0, 0);
    own = std::make_shared<Own>();
    net.add("own", own);
    net.add("last", std::make_shared<nn::Linear>(kUnits, 2));
    x = random_normal({kSamples, kInputs});
  }
  Tensor loss() { return mse_loss(net(x), Tensor::zeros({kSamples, 2})); }

  nn::Sequential net;
  std::shared_ptr<Own> own;
  Tensor x;
};

constexpr std::int64_t kFlop = 2 * kSamples * kInputs * kUnits;

}  // namespace

TEST_CASE("an op from outside the tree has its FLOP and sizes in a summary", "[own_op]") {
  Model model;
  const models::ModelSummary summary = models::summarise(model.net, {kInputs});
  const models::LayerSummary& layer = summary.layers.at(1);
  CHECK(layer.name == "own");
  CHECK(layer.flop == kFlop / kSamples);
  CHECK(layer.inputs == kInputs);
  CHECK(layer.outputs == kUnits);
  CHECK(std::ranges::any_of(summary.times, [](const models::OpTime& time) {
    return time.op == &OwnProduct::info && time.flop > 0;
  }));
}

TEST_CASE("an op from outside the tree has its family and FLOP in a profile", "[own_op]") {
  Model model;
  train::StageTimer stages;
  const profile::Profile profile = profile::measure(backend_for(Device{}), 0, stages, 1, [&] {
    backward(model.loss());
    model.net.clear_gradients();
  });
  const auto of = [&](const std::string& family, profile::Direction direction) {
    const auto found = std::ranges::find_if(profile.families, [&](const profile::FamilyCost& cost) {
      return cost.family == family && cost.direction == direction;
    });
    return found == profile.families.end() ? profile::Cost{} : found->cost;
  };
  CHECK(of("own", profile::Direction::forward).calls == 1.0);
  CHECK(of("own", profile::Direction::forward).flop == static_cast<double>(kFlop));
  CHECK(of("own", profile::Direction::backward).flop == static_cast<double>(kFlop));  // of the weight alone
  CHECK(of("elementwise", profile::Direction::forward).calls >= 1.0);
}

TEST_CASE("an op from outside the tree is traced, planned and follows its plan", "[own_op]") {
  namespace plan = amp::plan;
  Model model;
  const plan::Graph graph = amp::trace(model.net, [&] { return model.loss(); }).graph;
  const auto number = [&](const char* op) {
    return static_cast<std::size_t>(
        std::ranges::find_if(graph.ops, [&](const plan::Op& each) { return each.key.op == op; }) -
        graph.ops.begin());
  };
  REQUIRE(number("own_product") < graph.ops.size());
  CHECK(is_product(graph.ops[number("own_product")]));
  CHECK(keeps_values(graph.ops[number("own_negation")].op_kind));

  const plan::Assignment types = plan::rules(graph);
  const std::size_t ops = graph.ops.size();
  const plan::PrecisionPlan made = plan::plan_of(graph, types, std::vector<plan::Why>(ops, plan::Why::rule),
                                                 DType::bf16, false, std::vector<bool>(ops));
  const amp::ResolvedPrecision followed(
      std::make_shared<const amp::PlannedTypes>(made, "plan.json", amp::Precision::amp_bf16(), model.net));
  struct Watch final : OpObserver {
    void after_forward(const OpInfo& info, std::span<const Tensor>, std::span<const Tensor> out) override {
      if (&info == &OwnProduct::info || &info == &OwnNegation::info) types.push_back(out[0].dtype());
    }
    std::vector<DType> types;
  } watch;
  {
    const amp::Autocast autocast(followed);
    const ObserverScope observed(watch);
    model.loss();
    autocast.finish();
  }
  CHECK(watch.types == std::vector<DType>{DType::bf16, DType::bf16});
}

TEST_CASE("an op from outside the tree is advised on", "[own_op]") {
  Model model;
  const auto products = advise::products_of(model.net, [&] { return model.loss(); });
  REQUIRE(products.size() == 2);
  CHECK(products[0].key.op == "own_product");
  CHECK(products[0].size.m == kSamples);
  CHECK(products[0].size.n == kUnits);
  CHECK(products[0].size.k == kInputs);
  CHECK_FALSE(products[0].resizable());
  CHECK(products[1].resizable());
}

TEST_CASE("an op from outside the tree is known by its name", "[own_op]") {
  CHECK(find_op("own_product") == &OwnProduct::info);
  CHECK(find_op("no_such_op") == nullptr);
  amp::Precision precision = amp::Precision::amp_bf16();
  precision.lists.deny = {"own_product"};
  Model model;
  const amp::ResolvedPrecision plan(precision, model.net);
  const amp::Autocast autocast(plan);
  CHECK((*model.own)(model.x).dtype() == DType::f32);
}

TEST_CASE("an op from outside the tree that ONNX has is exported under that name", "[own_op]") {
  nn::Sequential net;
  struct Negated final : nn::Module {
    Tensor forward(const Tensor& x) override { return apply(OwnNegation{}, {x}).y; }
  };
  net.add("last", std::make_shared<nn::Linear>(kInputs, 2));
  net.add("negated", std::make_shared<Negated>());
  CHECK(exporting::onnx_model(net, {kInputs}, {}).find("Neg") != std::string::npos);
  Model model;
  CHECK_FAILS(UserError, exporting::onnx_model(model.net, {kInputs}, {}), "own_product");
}
