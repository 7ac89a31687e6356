// The module tree: names, sharing, modes, freezing, statistics, observers.
#include "nn/module.h"

#include <catch2/catch.hpp>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/error.h"
#include "core/shapes_backend.h"
#include "nn/device.h"
#include "nn/layers.h"

using namespace tandem;
using namespace tandem::nn;

namespace {

std::vector<std::string> names_of(const Module& module) {
  std::vector<std::string> names;
  for (const Parameter& parameter : module.parameters()) names.push_back(parameter.name());
  return names;
}

std::shared_ptr<Sequential> small_net() {
  auto block = std::make_shared<Sequential>();
  block->add("conv", std::make_shared<Conv2d>(3, 4, 3, ConvOptions{.bias = false}));
  block->add("bn", std::make_shared<BatchNorm>(4, BatchNormLayerOptions{.relu = true}));
  auto net = std::make_shared<Sequential>();
  net->add("stem", block).add(std::make_shared<GlobalAvgPool2d>()).add("fc", std::make_shared<Linear>(4, 2));
  return net;
}

Tensor ramp(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) / 8.0f - 1.0f;
  return Tensor::from(values, shape);
}

}  // namespace

TEST_CASE("members at dotted paths share the modules on their way", "[module]") {
  struct Block : Module {
    Block() {
      add_child_at("attention.output.dense", std::make_shared<Linear>(2, 2, LinearOptions{.bias = false}));
      add_parameter_at("attention.self.weight", constant_parameter({2}, 1.0));
      add_child_at("norm", std::make_shared<LayerNorm>(2));
    }
  };
  const auto block = std::make_shared<Block>();
  CHECK(names_of(*block) == std::vector<std::string>{"attention.output.dense.weight", "attention.self.weight",
                                                     "norm.weight", "norm.bias"});
  CHECK(block->find("attention.output")->children().size() == 1);
}

TEST_CASE("names are dotted paths in order of registration") {
  const auto net = small_net();
  CHECK(names_of(*net) == std::vector<std::string>{"stem.conv.weight", "stem.bn.weight", "stem.bn.bias",
                                                   "fc.weight", "fc.bias"});
  std::vector<std::string> statistics;
  for (const Statistic& s : net->statistics()) statistics.push_back(s.name);
  CHECK(statistics == std::vector<std::string>{"stem.bn.running_mean", "stem.bn.running_var"});
  CHECK(net->counters().at(0).name == "stem.bn.num_batches_tracked");
  std::vector<std::string> paths;
  net->visit([&](const std::string& path, Module&) { paths.push_back(path); });
  CHECK(paths == std::vector<std::string>{"", "stem", "stem.conv", "stem.bn", "1", "fc"});
  CHECK(net->find("stem.bn")->describe() == "BatchNorm(4, relu)");
  CHECK(net->find("nowhere") == nullptr);
  CHECK(net->parameter_count() == 4 * 27 + 8 + 10);
}

TEST_CASE("a name stands for one member") {
  Sequential net;
  net.add("a", std::make_shared<Relu>());
  for (const char* wrong : {"a", "", "a.b"})
    CHECK_THROWS_AS(net.add(wrong, std::make_shared<Relu>()), InternalError);
  net.add("b", std::make_shared<Relu>());
  CHECK(net.size() == 2);
}

TEST_CASE("a shared parameter counts once and gathers gradients from all its uses") {
  auto first = std::make_shared<Linear>(3, 3, LinearOptions{.bias = false});
  auto tied = std::make_shared<Linear>(first->weight());
  Sequential net{first, tied};
  CHECK(names_of(net) == std::vector<std::string>{"0.weight"});
  CHECK(net.parameter_count() == 9);
  CHECK(net.parameter_paths().size() == 2);
  const Tensor x = ramp({2, 3});
  backward(sum(net(x)));
  const auto both = first->weight().gradient().to_vector<double>();
  net.clear_gradients();
  CHECK_FALSE(first->weight().gradient().defined());
  // The same function with two parameters of equal value: the gradients add up.
  Linear a{Parameter(first->weight().value().clone())}, b{Parameter(first->weight().value().clone())};
  backward(sum(b(a(x))));
  const auto ga = a.weight().gradient().to_vector<double>();
  const auto gb = b.weight().gradient().to_vector<double>();
  for (std::size_t i = 0; i < both.size(); ++i) CHECK(both[i] == Approx(ga[i] + gb[i]).margin(1e-5));

  Sequential twice;
  twice.add("a", first).add("b", first);  // a shared module
  CHECK(names_of(twice) == std::vector<std::string>{"a.weight"});
}

TEST_CASE("training and evaluation reach every child; a scope restores each module's own mode") {
  const auto net = small_net();
  Module& bn = *net->find("stem.bn");
  CHECK(bn.training());
  net->eval();
  CHECK_FALSE(bn.training());
  net->train();
  bn.eval();
  {
    const ModeScope scope(*net, true);
    CHECK(bn.training());
  }
  CHECK_FALSE(bn.training());
  CHECK(net->training());
}

TEST_CASE("frozen parameters get no gradient and the others do") {
  const auto net = small_net();
  CHECK(net->freeze("^stem") == 3);
  CHECK(net->freeze("nothing") == 0);
  CHECK(net->parameter_count(true) == 10);
  backward(sum((*net)(ramp({2, 5, 5, 3}))));
  for (const Parameter& parameter : net->parameters())
    CHECK(parameter.gradient().defined() == (parameter.name().substr(0, 2) == "fc"));
  CHECK(net->freeze("conv", false) == 1);
  CHECK(net->parameter_count(true) == 10 + 108);
}

TEST_CASE("statistics move to the shadow in training and become live when committed") {
  BatchNorm bn(2, {.momentum = 0.5});
  const Tensor x = Tensor::from({1, 10, 3, 30}, {2, 2});  // means 2, 20; unbiased variances 2, 200
  const auto values = [&](bool live) {
    std::vector<double> all;
    for (const Statistic& s : bn.statistics()) {
      for (double v : (live ? s.live : s.next).to_vector<double>()) all.push_back(v);
    }
    return all;
  };
  bn(x);
  CHECK(values(true) == std::vector<double>{0, 0, 1, 1});
  CHECK(values(false) == std::vector<double>{1, 10, 1.5, 100.5});
  bn.commit_statistics(false);
  CHECK(values(false) == std::vector<double>{0, 0, 1, 1});
  bn(x);
  bn(x);  // a second micro-batch continues from the first
  CHECK(values(false) == std::vector<double>{1.5, 15, 1.75, 150.25});
  bn.commit_statistics();
  CHECK(values(true) == std::vector<double>{1.5, 15, 1.75, 150.25});
  CHECK(*bn.counters()[0].live == 2);  // without the step that was taken back

  const StatisticBuffers buffers = bn.flatten_statistics();
  CHECK(buffers.live.to_vector<double>() == std::vector<double>{1.5, 15, 1.75, 150.25});
  bn(x);
  CHECK(buffers.next.to_vector<double>() == std::vector<double>{1.75, 17.5, 1.875, 175.125});
  bn.eval();
  const NoGrad no_grad;
  const auto y = bn(x).to_vector<double>();
  CHECK(y[0] == Approx((1 - 1.5) / std::sqrt(1.75 + 1e-5)));
  CHECK(y[3] == Approx((30 - 15) / std::sqrt(150.25 + 1e-5)));
  CHECK(values(false) == std::vector<double>{1.75, 17.5, 1.875, 175.125});  // evaluation writes nothing
}

namespace {

// Adds a fixed row to its input, and where asked for a trained one.
class Positions final : public Module {
 public:
  explicit Positions(bool trained) : fixed_(add_constant("positions", ramp({3}))) {
    if (trained) scale_ = add_parameter("scale", Parameter(ramp({3})));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = add(x, fixed_);
    return scale_.defined() ? mul(y, scale_) : y;
  }

 private:
  const Tensor& fixed_;
  Parameter scale_;
};

}  // namespace

TEST_CASE("constants are named in the tree, moved with it, and neither trained nor state") {
  const auto shared = std::make_shared<Positions>(false);
  Sequential net;
  net.add("a", shared).add("b", shared).add("c", std::make_shared<Positions>(true));
  const std::vector<Constant> constants = net.constants();
  REQUIRE(constants.size() == 2);
  CHECK(constants[0].name == "a.positions");
  CHECK(constants[1].name == "c.positions");
  CHECK(names_of(net) == std::vector<std::string>{"c.scale"});
  CHECK(net.statistics().empty());
  CHECK(net.counters().empty());
  const auto before = constants[1].value.to_vector<double>();
  backward(sum(net(ramp({2, 3}))));
  CHECK_FALSE(constants[1].value.requires_grad());
  CHECK(net.parameters()[0].gradient().defined());
  net.commit_statistics();
  CHECK(net.constants()[1].value.to_vector<double>() == before);

  CHECK(device_of(Positions(false)) == Device{});
  net.to(kShapes);
  for (const Constant& constant : net.constants()) CHECK(constant.value.device() == kShapes);
  CHECK(net(Tensor::zeros({2, 3}, {.device = kShapes})).device() == kShapes);  // the reference has followed
  const BuildDevice shapes(kShapes);
  CHECK(device_of(Positions(false)) == kShapes);
}

TEST_CASE("a constant is the module's own, and its name like any other") {
  struct Twice final : Module {
    explicit Twice(const Tensor& value) {
      const Tensor& own = add_constant("grid", value);
      CHECK_FALSE(own.shares_storage(value));
      CHECK(own.dtype() == DType::i64);
      CHECK_THROWS_AS(add_constant("grid", value), InternalError);
      CHECK_THROWS_AS(add_statistic("grid", ramp({2})), InternalError);
      CHECK_THROWS_AS(add_constant("absent", Tensor{}), InternalError);
    }
    Tensor forward(const Tensor& x) override { return x; }
  };
  Twice(Tensor::from(std::vector<std::int64_t>{1, 2}, {2}));
}

namespace {

template <class Inner>
struct Around : Module {};

}  // namespace

TEST_CASE("a module that does not describe itself has the name of its class, without namespaces") {
  struct Local final : Module {};
  const std::vector<std::pair<std::string, ModulePtr>> named{
      {"Local", std::make_shared<Local>()},
      {"Positions", std::make_shared<Positions>(false)},
      {"Around<tandem::nn::Relu>", std::make_shared<Around<Relu>>()},
  };
  for (const auto& [name, module] : named) CHECK(module->describe() == name);
  CHECK_THROWS_WITH(Local()(ramp({2})), Catch::Contains("[Local] has no forward with one input"));
}

TEST_CASE("modules of one input refuse several, with their description") {
  Linear layer(2, 3);
  const Tensor x = ramp({1, 2});
  CHECK_THROWS_WITH(layer(TensorList{x, x}), Catch::Contains("Linear(2 → 3)") && Catch::Contains("got 2"));
  CHECK_THROWS_AS(Add()(x), UserError);
}

TEST_CASE("module observers see every call, parents around children") {
  struct Log final : ModuleObserver {
    std::vector<std::string> lines;
    void enter(Module& m) override { lines.push_back(fmt::format("+{}", m.describe())); }
    void leave(Module& m, const Tensor& y) override {
      lines.push_back(fmt::format("-{}{}", m.describe(), to_string(y.shape())));
    }
  };
  Log log;
  Sequential net{std::make_shared<Linear>(2, 3), std::make_shared<Relu>()};
  {
    const ModuleObserverScope scope(log);
    net(ramp({4, 2}));
  }
  net(ramp({4, 2}));
  CHECK(log.lines == std::vector<std::string>{"+Sequential(2 layers)", "+Linear(2 → 3)",
                                              "-Linear(2 → 3)[4,3]", "+Relu", "-Relu[4,3]",
                                              "-Sequential(2 layers)[4,3]"});
  Log outer, inner;
  Relu relu;
  const ModuleObserverScope outside(outer);
  {
    const ModuleObserverScope inside(inner);
    relu(ramp({2}));
  }
  relu(ramp({2}));
  CHECK(inner.lines == std::vector<std::string>{"+Relu", "-Relu[2]"});
  CHECK(outer.lines == std::vector<std::string>{"+Relu", "-Relu[2]", "+Relu", "-Relu[2]"});
}

namespace {

// A cell of a recurrent network: two inputs, a struct of two outputs.
class Cell final : public Module {
 public:
  struct State {
    Tensor h, c;
  };
  Cell() : fc_(add_child("fc", std::make_shared<Linear>(2, 2))) {}
  State operator()(const Tensor& x, const State& state) {
    return observed([&] {
      const Tensor c = add(state.c, (*fc_)(x));
      return State{mul(c, state.h), c};
    });
  }

 private:
  std::shared_ptr<Linear> fc_;
};

}  // namespace

TEST_CASE("a call of a module's own types is observed as forward is") {
  struct Log final : ModuleObserver {
    std::vector<std::string> lines;
    std::size_t outputs = 0;
    void enter(Module& m) override { lines.push_back("+" + m.describe()); }
    void leave(Module& m, const Tensor& y) override { lines.push_back("-" + m.describe() + to_string(y)); }
  };
  struct Several final : ModuleObserver {
    std::vector<std::size_t> counts;
    void leave(Module&, const Tensor&) override { counts.push_back(1); }
    void leave_several(Module&, std::span<const Tensor> ys) override { counts.push_back(ys.size() * 10); }
  };
  Cell cell;
  const Tensor x = ramp({3, 2});
  const Cell::State start{x, x}, plain = cell(x, start);
  Log log;
  Several several;
  Cell::State seen;
  {
    const ModuleObserverScope first(log), second(several);
    seen = cell(x, start);
    Split({1, 1}).all_outputs({x});
  }
  CHECK(seen.h.to_vector<double>() == plain.h.to_vector<double>());
  CHECK(log.lines == std::vector<std::string>{"+Cell", "+Linear(2 → 2)", "-Linear(2 → 2)f32[3,2]",
                                              "-Cellf32[3,2]", "+Split(1 + 1, axis -1)",
                                              "-Split(1 + 1, axis -1)f32[3,1]"});
  CHECK(several.counts == std::vector<std::size_t>{1, 20, 20});
  CHECK_THROWS_WITH(static_cast<Module&>(cell)(x), Catch::Contains("[Cell] has no forward with one input"));
  CHECK(Linear(2, 1).all_outputs({x}).size() == 1);
  CHECK(Add().all_outputs({x, x}).size() == 1);
}
