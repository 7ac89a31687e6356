// Each layer: its result against the op or by hand, its parameters, its errors.
#include "nn/layers.h"

#include <catch2/catch.hpp>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "core/random.h"

using namespace tandem;
using namespace tandem::nn;

namespace {

Tensor ramp(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 23) / 8.0f - 1.25f;
  return Tensor::from(values, shape);
}

void check_same(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  CHECK(a.to_vector<float>() == b.to_vector<float>());
}

}  // namespace

TEST_CASE("convolution layers give the shapes and parameters of their options") {
  Conv2d conv(6, 8, {3, 5}, {.stride = {2, 1}, .padding = {1, 2}, .groups = 2});
  CHECK(conv.weight().value().shape() == Shape{8, 3, 5, 3});
  CHECK(conv.weight().layout() == ParameterLayout::filter);
  CHECK(conv.bias().value().shape() == Shape{8});
  CHECK(conv(ramp({2, 9, 7, 6})).shape() == Shape{2, 5, 7, 8});
  CHECK(conv.describe() == "Conv2d(6 → 8, 3×5, stride 2×1, padding 1×2, 2 groups)");
  check_same(conv(ramp({1, 4, 4, 6})),
             conv2d(ramp({1, 4, 4, 6}), conv.weight(), conv.bias(), {{2, 1}, {1, 2}, {1, 1}, 2}));

  Conv1d conv1(4, 6, 3, {.stride = 2, .padding = 1});
  CHECK(conv1(ramp({2, 9, 4})).shape() == Shape{2, 5, 6});

  ConvTransposeOptions options;
  options.stride = {2, 2};
  options.padding = {1, 1};
  options.output_padding = {1, 1};
  ConvTranspose2d up(4, 3, {3, 3}, options);
  CHECK(up(ramp({2, 5, 5, 4})).shape() == Shape{2, 10, 10, 3});
  CHECK(up.parameters()[0].layout() == ParameterLayout::transposed_filter);

  CHECK_THROWS_WITH(Conv2d(6, 8, 3, {.groups = 4}),
                    Catch::Contains("[conv2d]") && Catch::Contains("4 groups"));
  CHECK_THROWS_AS(Conv2d(0, 8, 3), UserError);
  CHECK_THROWS_AS(Conv2d(3, 8, 3, {.stride = {0, 1}}), UserError);
  CHECK_THROWS_AS(conv(ramp({1, 4, 4, 5})), UserError);
}

TEST_CASE("linear layers compute x·Wᵀ + b over the last axis") {
  Linear layer(3, 2);
  const Tensor x = ramp({2, 2, 3});
  const auto y = layer(x).to_vector<double>();
  const auto w = layer.weight().value().to_vector<double>();
  const auto b = layer.bias().value().to_vector<double>();
  const auto v = x.to_vector<double>();
  for (std::size_t n = 0; n < 4; ++n) {
    for (std::size_t o = 0; o < 2; ++o) {
      double sum = b[o];
      for (std::size_t i = 0; i < 3; ++i) sum += v[n * 3 + i] * w[o * 3 + i];
      CHECK(y[n * 2 + o] == Approx(sum).margin(1e-6));
    }
  }
  CHECK_THROWS_AS(Linear(0, 2), UserError);
  CHECK_THROWS_AS(Linear(layer.weight(), Parameter(ramp({3}))), UserError);
}

TEST_CASE("batch norm adds its residual before the activation") {
  BatchNorm bn(3, {.relu = true});
  const Tensor x = ramp({4, 2, 2, 3});
  const Tensor residual = ramp({4, 2, 2, 3});
  BatchNorm plain(3);
  check_same(bn(x, residual), bn(TensorList{x, residual}));
  const auto fused = bn(x, residual).to_vector<double>();
  const auto separate = relu(add(plain(x), residual)).to_vector<double>();
  for (std::size_t i = 0; i < fused.size(); ++i) CHECK(fused[i] == Approx(separate[i]).margin(1e-5));
  CHECK(BatchNorm(3, {.affine = false}).parameters().empty());
  CHECK(BatchNorm(3, {.zero_gamma = true}).weight().value().to_vector<float>() ==
        std::vector<float>{0, 0, 0});
  CHECK_THROWS_AS(bn(ramp({1, 3})), UserError);  // one value per channel
  CHECK_THROWS_AS(BatchNorm(3, {.momentum = 1.5}), UserError);
}

TEST_CASE("layer and group norm normalise where they say") {
  LayerNorm over_two(Shape{2, 3});
  const auto y = over_two(ramp({4, 2, 3})).to_vector<double>();
  for (std::size_t n = 0; n < 4; ++n) {
    double mean = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < 6; ++i) mean += y[n * 6 + i] / 6.0;
    for (std::size_t i = 0; i < 6; ++i) squares += y[n * 6 + i] * y[n * 6 + i] / 6.0;
    CHECK(mean == Approx(0.0).margin(1e-6));
    CHECK(squares == Approx(1.0).margin(1e-3));
  }
  CHECK(over_two.parameter_count() == 12);
  for (const Shape& wrong : {Shape{4, 3, 2}, Shape{4, 3, 3}, Shape{4, 2, 2}, Shape{3}})
    CHECK_THROWS_WITH(over_two(ramp(wrong)), Catch::Contains("over [2,3], input is " + to_string(wrong)));
  GroupNorm groups(2, 4);
  CHECK(groups(ramp({2, 3, 3, 4})).shape() == Shape{2, 3, 3, 4});
  CHECK_THROWS_AS(GroupNorm(3, 4), UserError);
  CHECK_THROWS_AS(groups(ramp({2, 3, 3, 5})), UserError);
}

TEST_CASE("dropout is the identity in evaluation and keyed by the scope in training") {
  Dropout dropout(0.5);
  const Tensor x = Tensor::full({1000}, 1.0);
  const auto draw = [&](std::uint64_t seed) {
    const RandomScope scope(seed, 3, 0);
    return dropout(x).to_vector<float>();
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
  dropout.eval();
  check_same(dropout(x), x);
  CHECK_THROWS_AS(Dropout(1.0), UserError);
}

TEST_CASE("embedding gathers rows and keeps its padding row at zero") {
  Embedding table(5, 3, 2);
  const Tensor index = Tensor::from(std::vector<std::int64_t>{4, 2, 4}, {3});
  const auto y = table(index).to_vector<float>();
  const auto w = table.weight().value().to_vector<float>();
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(y[i] == w[12 + i]);
    CHECK(y[3 + i] == 0.0f);
  }
  CHECK_THROWS_AS(table(Tensor::from(std::vector<std::int64_t>{5}, {1})), UserError);
  CHECK_THROWS_AS(Embedding(5, 3, 5), UserError);
}

TEST_CASE("pooling, flattening, reshaping and resizing give their shapes") {
  const Tensor x = ramp({2, 6, 8, 3});
  CHECK(MaxPool2d(2)(x).shape() == Shape{2, 3, 4, 3});
  CHECK(AvgPool2d({.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}})(x).shape() == Shape{2, 3, 4, 3});
  CHECK(AdaptiveAvgPool2d(2, 3)(x).shape() == Shape{2, 2, 3, 3});
  CHECK(GlobalAvgPool2d()(x).shape() == Shape{2, 3});
  CHECK(Flatten()(x).shape() == Shape{2, 144});
  check_same(Flatten(FlattenOrder::chw)(x), Flatten()(permute(x, {0, 3, 1, 2})));
  CHECK(Reshape({12, -1})(x).shape() == Shape{2, 12, 12});
  CHECK(Reshape({12, -1})(Tensor::zeros({0, 6, 8, 3})).shape() == Shape{0, 12, 12});
  CHECK_THROWS_AS(Reshape({-1, -1}), UserError);
  CHECK_THROWS_WITH(Reshape({1 << 24, 1 << 24, 1 << 24, -1}), Catch::Contains("64 bits"));
  CHECK_THROWS_WITH(Reshape({7, -1})(x), Catch::Contains("[reshape]") && Catch::Contains("144"));
  CHECK(Upsample({.size = std::array<Index, 2>{3, 5}})(x).shape() == Shape{2, 3, 5, 3});
  CHECK(Upsample({.scale = std::array{2.0, 1.5}, .mode = ResizeMode::bilinear})(x).shape() ==
        Shape{2, 12, 12, 3});
  // Three rows by 1.6 are four: the last is at 3·3/4 of the image, or at 3/1.6. Three by 1.2 are the image.
  const Tensor column = ramp({1, 3, 1, 1});
  const std::vector<float> at = column.to_vector<float>();
  const auto rows = [&](double scale, bool recompute) {
    Upsample upsample({.scale = std::array{scale, 1.0}, .recompute_scale_factor = recompute});
    return upsample(column).to_vector<float>();
  };
  CHECK(rows(1.6, true) == std::vector<float>{at[0], at[0], at[1], at[2]});
  CHECK(rows(1.6, false) == std::vector<float>{at[0], at[0], at[1], at[1]});
  CHECK(rows(1.2, true) == at);
  CHECK(rows(1.2, false) == at);
  CHECK_THROWS_AS(Upsample({}), UserError);
  check_same(Identity()(x), x);
}

TEST_CASE("activation layers are the ops of their names") {
  const Tensor x = ramp({4, 5});
  check_same(Relu()(x), relu(x));
  check_same(LeakyRelu(0.2)(x), leaky_relu(x, 0.2));
  check_same(Elu(0.7)(x), elu(x, 0.7));
  check_same(Gelu()(x), gelu(x));
  check_same(Gelu(GeluForm::tanh)(x), gelu(x, GeluForm::tanh));
  check_same(Silu()(x), silu(x));
  check_same(Softplus(2.0, 3.0)(x), softplus(x, 2.0, 3.0));
  check_same(Hardswish()(x), hardswish(x));
  check_same(Hardsigmoid()(x), hardsigmoid(x));
  check_same(Relu6()(x), relu6(x));
  check_same(Sigmoid()(x), sigmoid(x));
  check_same(Tanh()(x), tanh(x));
  check_same(Prelu()(x), leaky_relu(x, 0.25));
  check_same(Softmax(0)(x), softmax(x, 0));
  check_same(LogSoftmax()(x), log_softmax(x));
  CHECK(Prelu(5).parameter_count() == 5);
}

TEST_CASE("a graph runs branches and lets go of what nobody needs") {
  Graph graph;
  const int a = graph.add("a", std::make_shared<Relu>(), {Graph::kInput});
  const int b = graph.add("b", std::make_shared<Tanh>(), {a});
  graph.add("sum", std::make_shared<Add>(), {a, b, Graph::kInput});
  const Tensor x = ramp({3, 4});
  check_same(graph(x), add(add(relu(x), tanh(relu(x))), x));
  CHECK_THROWS_AS(graph.add("late", std::make_shared<Relu>(), {7}), UserError);

  // Evaluation of a chain holds two results at a time, whatever its length.
  struct Peak final : ModuleObserver {
    std::size_t live = 0;
    void leave(Module&, const Tensor&) override { live = std::max(live, host_allocator().figures().live); }
  };
  Graph chain;
  for (int i = 0; i < 8; ++i) chain.add(fmt::format("n{}", i), std::make_shared<Relu>(), {i - 1});
  const NoGrad no_grad;
  const Tensor big = Tensor::zeros({1 << 16});
  const std::size_t before = host_allocator().figures().live;
  Peak peak;
  const ModuleObserverScope scope(peak);
  chain(big);
  CHECK(peak.live - before <= 2 * big.bytes());
}

TEST_CASE("a graph takes several named inputs and gives several named outputs") {
  Graph graph({"image", "noise"});
  const int a = graph.add("a", std::make_shared<Relu>(), {Graph::input(1)});
  const int sum = graph.add("sum", std::make_shared<Add>(), {Graph::kInput, a});
  const int bent = graph.add("bent", std::make_shared<Tanh>(), {sum});
  graph.add("side", std::make_shared<Sigmoid>(), {a});
  graph.set_outputs({{"score", bent}, {"sum", sum}});
  CHECK(graph.inputs() == std::vector<std::string>{"image", "noise"});
  CHECK(graph.outputs() == std::vector<std::string>{"score", "sum"});
  CHECK(graph.describe() == "Graph(4 nodes, image + noise → score + sum)");
  const Tensor x = ramp({3, 4}), z = neg(ramp({3, 4})), expected = add(x, relu(z));
  NamedTensors y = graph({{"noise", z}, {"image", x}, {"label", Tensor::zeros({3})}});
  REQUIRE(y.size() == 2);
  check_same(y["sum"], expected);
  check_same(y["score"], tanh(expected));
  const TensorList by_position = graph.all_outputs({x, z});
  check_same(by_position[0], tanh(expected));
  check_same(by_position[1], expected);
  CHECK_THROWS_WITH(graph({{"image", x}, {"niose", z}}),
                    Catch::Contains("takes \"noise\"") && Catch::Contains("did you mean \"niose\""));
  CHECK_THROWS_WITH(graph(x), Catch::Contains("has 2 outputs"));
  CHECK_THROWS_WITH(graph.all_outputs({x}), Catch::Contains("takes 2 inputs, got 1"));

  Graph single({"z"});
  single.add("a", std::make_shared<Relu>(), {Graph::kInput});
  check_same(single({{"z", x}}).at("output"), relu(x));
  check_same(single(x), relu(x));
  CHECK_THROWS_WITH(single.add("b", std::make_shared<Relu>(), {Graph::input(1)}),
                    Catch::Contains("takes input 1, the graph has 1"));
  CHECK_THROWS_AS(single.set_outputs({{"in", Graph::kInput}}), UserError);
  CHECK_THROWS_AS(Graph(std::vector<std::string>{}), UserError);
}

TEST_CASE("a layer of several outputs is taken by number") {
  const auto halves = std::make_shared<Split>(std::vector<Index>{1, 3}, -1);
  CHECK(halves->describe() == "Split(1 + 3, axis -1)");
  const Tensor x = ramp({2, 4});
  const TensorList pieces = halves->all_outputs({x});
  check_same(pieces[1], slice(x, 1, 1, 4));
  CHECK_THROWS_WITH((*halves)(x), Catch::Contains("has no forward with one input and one output"));
  CHECK_THROWS_AS(halves->all_outputs({x, x}), UserError);

  Graph graph;
  const int split = graph.add("split", halves, {Graph::kInput});
  const int bent = graph.add("bent", std::make_shared<Tanh>(), {Graph::Source(split, 1)});
  graph.add("joined", std::make_shared<Concat>(), {bent, {split, 0}, {split, 1}});
  const Tensor in = leaf(x), y = graph(in);
  check_same(y, concat({tanh(pieces[1]), pieces[0], pieces[1]}, -1));
  backward(sum(y));
  const Tensor rest = slice(x, 1, 1, 4), slope = sub(1.0, mul(tanh(rest), tanh(rest)));
  const auto got = gradient_of(in).to_vector<double>(),
             wanted = concat({Tensor::full({2, 1}, 1.0), add(slope, 1.0)}, -1).to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(wanted[i]).epsilon(1e-5));
  CHECK_THROWS_WITH(graph.add("late", std::make_shared<Relu>(), {split}),
                    Catch::Contains("unlike another node"));

  Graph beyond;
  const int two = beyond.add("two", halves, {Graph::kInput});
  beyond.add("third", std::make_shared<Relu>(), {Graph::Source(two, 2)});
  CHECK_THROWS_WITH(beyond(x), Catch::Contains("output 2 of Split(1 + 3, axis -1) is taken, it has 2"));
}

TEST_CASE("a graph lets go of outputs that are no longer needed, and of none that it gives") {
  struct Peak final : ModuleObserver {
    std::size_t live = 0;
    void leave(Module&, const Tensor&) override { live = std::max(live, host_allocator().figures().live); }
  };
  Graph graph;
  const int first = graph.add("first", std::make_shared<Relu>(), {Graph::kInput});
  int last = first;
  for (int i = 0; i < 6; ++i) last = graph.add(fmt::format("n{}", i), std::make_shared<Relu>(), {last});
  graph.set_outputs({{"first", first}, {"last", last}});
  const NoGrad no_grad;
  const Tensor big = Tensor::full({1 << 16}, 2.0);
  const std::size_t before = host_allocator().figures().live;
  Peak peak;
  TensorList y;
  {
    const ModuleObserverScope scope(peak);
    y = graph.all_outputs({big});
  }
  CHECK(peak.live - before <= 3 * big.bytes());
  check_same(y[0], big);
  check_same(y[1], big);
}

TEST_CASE("concat joins along its axis") {
  const Tensor x = ramp({2, 3});
  check_same(Concat()(TensorList{x, x}), concat({x, x}, -1));
  CHECK_THROWS_AS(Concat()(x), UserError);
}
