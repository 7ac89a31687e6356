// Frozen and KeepStatistics: the updates that they prevent, and no other effect, to the bit.
#include "nn/scopes.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/error.h"
#include "nn/layers.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::nn;

using test::random_tensor;

namespace {

using Make = std::function<ModulePtr()>;

struct Case {
  const char* name;
  Make make;
  Shape input;
};

// Every layer with parameters, and what is fused.
std::vector<Case> cases() {
  const auto network = [] {
    auto net = std::make_shared<Sequential>();
    net->add("conv", std::make_shared<Conv2d>(3, 8, 3, ConvOptions{.bias = false}));
    net->add("bn", std::make_shared<BatchNorm>(8, BatchNormLayerOptions{.relu = true}));
    ConvTransposeOptions doubled;
    doubled.stride = {2, 2};
    net->add("up", std::make_shared<ConvTranspose2d>(8, 4, std::array<Index, 2>{2, 2}, doubled));
    net->add("slope", std::make_shared<Prelu>(4));
    net->add("pool", std::make_shared<GlobalAvgPool2d>());
    net->add("fc", std::make_shared<Linear>(4, 5));
    return net;
  };
  return {{"linear", [] { return std::make_shared<Linear>(6, 4); }, {5, 6}},
          {"conv2d", [] { return std::make_shared<Conv2d>(3, 4, 3); }, {2, 5, 5, 3}},
          {"batch norm", [] { return std::make_shared<BatchNorm>(6); }, {7, 6}},
          {"layer norm", [] { return std::make_shared<LayerNorm>(6); }, {7, 6}},
          {"group norm", [] { return std::make_shared<GroupNorm>(2, 6); }, {3, 4, 6}},
          {"network", network, {2, 6, 6, 3}}};
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

Tensor scalar_of(const Tensor& y) { return sum(mul(y, random_tensor(y.shape(), y.dtype(), 9))); }

bool any_gradient(const Module& module) {
  for (const auto& [path, parameter] : module.parameter_paths()) {
    if (parameter.gradient().defined()) return true;
  }
  return false;
}

bool all_gradients(const Module& module) {
  for (const auto& [path, parameter] : module.parameter_paths()) {
    if (!parameter.gradient().defined()) return false;
  }
  return true;
}

std::vector<double> values_of(const std::vector<Statistic>& statistics, bool live) {
  std::vector<double> all;
  for (const Statistic& s : statistics) {
    for (const double v : (live ? s.live : s.next).to_vector<double>()) all.push_back(v);
  }
  return all;
}

}  // namespace

TEST_CASE("a frozen module passes gradients on and takes none", "[scopes]") {
  for (const Case& each : cases()) {
    DYNAMIC_SECTION(each.name) {
      const ModulePtr module = each.make();
      const Tensor values = random_tensor(each.input), free = leaf(values), through = leaf(values);
      backward(scalar_of((*module)(free)));
      CHECK(all_gradients(*module));
      module->clear_gradients();
      Tensor loss;
      {
        const Frozen frozen(*module);
        loss = scalar_of((*module)(through));
      }
      backward(loss);  // outside: what was recorded counts
      CHECK_FALSE(any_gradient(*module));
      CHECK(same_bits(gradient_of(through), gradient_of(free)));
      backward(scalar_of((*module)(leaf(values))));
      CHECK(all_gradients(*module));
    }
  }
}

TEST_CASE("graphs recorded outside a frozen scope keep their edges", "[scopes]") {
  Linear layer(3, 2);
  const Tensor loss = scalar_of(layer(random_tensor({4, 3})));
  {
    const Frozen frozen(layer);
    backward(loss);
    CHECK_FALSE(layer(random_tensor({4, 3})).requires_grad());
  }
  CHECK(all_gradients(layer));
}

TEST_CASE("frozen scopes nest, end by exceptions, and leave frozen what was", "[scopes]") {
  Sequential net{std::make_shared<Linear>(3, 3), std::make_shared<Linear>(3, 2)};
  Module& last = *net.find("1");
  CHECK(net.freeze("^0.bias$") == 1);
  const auto trainable = [&] {
    std::vector<bool> all;
    for (const Parameter& parameter : net.parameters()) all.push_back(parameter.trainable());
    return all;
  };
  const std::vector<bool> before{true, false, true, true}, inner{true, false, false, false}, none(4, false);
  CHECK(trainable() == before);
  {
    const Frozen one(last);
    CHECK(trainable() == inner);
    {
      const Frozen all(net);
      const Frozen again(net);
      CHECK(trainable() == none);
    }
    CHECK(trainable() == inner);
  }
  CHECK(trainable() == before);
  const auto fail = [&] {
    const Frozen frozen(net);
    net(random_tensor({2, 5}));
  };
  CHECK_THROWS_AS(fail(), UserError);
  CHECK(trainable() == before);
}

TEST_CASE("freezing a part changes neither names nor the gradients of the rest", "[scopes]") {
  const auto shared = std::make_shared<Linear>(3, 3);
  const auto tied = std::make_shared<Linear>(shared->weight());
  Sequential net;
  net.add("a", shared).add("b", tied).add("c", std::make_shared<Linear>(3, 2));
  net.parameters();
  const Frozen frozen(*tied);
  CHECK(shared->weight().name() == "a.weight");
  backward(scalar_of(net(random_tensor({4, 3}))));
  CHECK_FALSE(shared->weight().gradient().defined());  // it is the weight of "b", too
  CHECK(net.find("c")->own_parameters()[0].second.gradient().defined());
}

TEST_CASE("a gradient penalty through a frozen module reaches what is in front of it alone", "[scopes]") {
  const auto front = std::make_shared<Linear>(4, 3), behind = std::make_shared<Linear>(3, 2);
  const auto penalty = [&](bool freeze) {
    front->clear_gradients();
    behind->clear_gradients();
    const HigherOrder composed;
    const Tensor x = leaf(random_tensor({5, 4}));
    Tensor y;
    {
      std::optional<Frozen> frozen;
      if (freeze) frozen.emplace(*behind);
      y = tanh((*behind)(tanh((*front)(x))));
    }
    const Tensor ones = Tensor::full(y.shape(), 1.0);
    const Tensor g =
        gradients(std::span(&y, 1), std::span(&ones, 1), std::span(&x, 1), {.create_graph = true})[0];
    backward(sum(mul(g, g)));
    return front->weight().gradient().to_vector<double>();
  };
  const std::vector<double> free = penalty(false);
  CHECK(all_gradients(*behind));
  CHECK(penalty(true) == free);
  CHECK_FALSE(any_gradient(*behind));
}

TEST_CASE("kept statistics: the same outputs and gradients, and nothing is written", "[scopes]") {
  for (const bool fused : {false, true}) {  // statistics from the convolution's own pass, where there are any
    for (const bool higher_order : {false, true}) {
      std::optional<HigherOrder> composed;
      if (higher_order) composed.emplace();
      const auto make = [&] {
        const RandomScope scope(7, 0, 0);
        auto net = std::make_shared<Sequential>();
        if (fused) net->add(std::make_shared<Conv2d>(3, 8, 3, ConvOptions{.bias = false}));
        net->add(std::make_shared<BatchNorm>(fused ? 8 : 3, BatchNormLayerOptions{.relu = true}));
        return net;
      };
      const ModulePtr ordinary = make(), kept = make();
      const Tensor a = leaf(random_tensor({4, 6, 6, 3})), b = leaf(a.detach());
      const Tensor first = (*ordinary)(a);
      backward(scalar_of(first));
      const auto live = values_of(kept->statistics(), true), next = values_of(kept->statistics(), false);
      Tensor second;
      {
        const KeepStatistics scope(*kept);
        second = (*kept)(b);
        backward(scalar_of(second));
      }
      CHECK(same_bits(first, second));
      CHECK(same_bits(gradient_of(a), gradient_of(b)));
      const auto wanted = ordinary->parameters(), got = kept->parameters();
      for (std::size_t i = 0; i < wanted.size(); ++i)
        CHECK(same_bits(wanted[i].gradient(), got[i].gradient()));
      CHECK(values_of(kept->statistics(), true) == live);
      CHECK(values_of(kept->statistics(), false) == next);
      CHECK(*kept->counters()[0].next == 0);
      CHECK(*ordinary->counters()[0].next == 1);
      CHECK(values_of(ordinary->statistics(), false) != next);
      (*kept)(b);  // and after the scope they are written as ever
      CHECK(values_of(kept->statistics(), false) == values_of(ordinary->statistics(), false));
      CHECK(*kept->counters()[0].next == 1);
    }
  }
}

TEST_CASE("scopes that keep statistics nest, end by exceptions, and do not touch evaluation", "[scopes]") {
  Sequential net{std::make_shared<BatchNorm>(3), std::make_shared<BatchNorm>(3)};
  Module &first = *net.find("0"), &second = *net.find("1");
  {
    const KeepStatistics one(first);
    CHECK(first.keeps_statistics());
    CHECK_FALSE(second.keeps_statistics());
    {
      const KeepStatistics all(net);
      CHECK(second.keeps_statistics());
    }
    CHECK(first.keeps_statistics());
    CHECK_FALSE(second.keeps_statistics());
  }
  CHECK_FALSE(first.keeps_statistics());
  const auto fail = [&] {
    const KeepStatistics scope(net);
    net(random_tensor({2, 5}));
  };
  CHECK_THROWS_AS(fail(), UserError);
  CHECK_FALSE(second.keeps_statistics());

  net.eval();
  const Tensor x = random_tensor({4, 3}), expected = net(x);
  const KeepStatistics scope(net);
  CHECK(same_bits(net(x), expected));
}
