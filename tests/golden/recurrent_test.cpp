// Recurrent layers against PyTorch (tests/golden/recurrent.py makes the values and the file of weights) and
// against independent vectors of one layer.
#include "nn/layers/recurrent.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "models/weights.h"
#include "nn/layers.h"
#include "tests/golden/hashed.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_files.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;

namespace {

using nlohmann::json;
using Values = std::vector<double>;

RnnCell cell_named(const std::string& name) {
  for (const RnnCell cell : {RnnCell::lstm, RnnCell::gru, RnnCell::rnn_tanh})
    if (name == name_of(cell)) return cell;
  return RnnCell::rnn_relu;
}

// A case of the script, and what the file has of it.
struct Case {
  std::string name;
  json what;
  const safetensors::File& golden;

  Index steps() const { return what["sizes"][0]; }
  Index rows() const { return what["sizes"][1]; }
  Index inputs() const { return what["sizes"][2]; }
  Index units() const { return what["sizes"][3]; }
  RnnCell cell() const { return cell_named(what["cell"]); }
  bool states() const { return what.value("states", false); }
  nn::RecurrentOptions options() const {
    return {.cell = cell(),
            .layers = what.value("layers", Index{1}),
            .bidirectional = what.value("bidirectional", false),
            .bias = what.value("bias", true),
            .projection = what.value("projection", Index{0})};
  }
  Tensor lengths() const {
    if (!what.contains("lengths")) return {};
    return Tensor::from(what["lengths"].get<std::vector<std::int64_t>>(), {rows()});
  }
  Values expected(const std::string& key) const { return golden.read(name + "." + key).to_vector<double>(); }
  Tensor given(const std::string& key, DType dtype) const {
    const Index stacked = options().layers * (options().bidirectional ? 2 : 1);
    const Index outputs = options().projection > 0 ? options().projection : units();
    const Shape shape = key == "x"     ? Shape{steps(), rows(), inputs()}
                        : key == "h_0" ? Shape{stacked, rows(), outputs}
                                       : Shape{stacked, rows(), units()};
    return leaf(cast(signed_unit(name + "." + key, shape), dtype).to(test::test_device()).detach());
  }
};

template <class Function>
void for_each_case(Function&& function) {
  const safetensors::File golden(test::source_path("tests/golden/recurrent.safetensors"));
  const json cases = json::parse(golden.metadata().at("cases"));
  REQUIRE(cases.size() >= 19);
  for (const auto& [name, what] : cases.items()) {
    INFO(name);
    function(Case{name, what, golden});
  }
}

// Each value in FP64 and FP32. In 16 bits all together: h is rounded at every step, and what the steps after
// it make of that grows with them; beside the kink of relu it decides whether a gradient passes.
void check(const std::string& key, const Values& found, const Values& expected, DType dtype, double slack) {
  INFO(key << " in " << name_of(dtype));
  REQUIRE(found.size() == expected.size());
  const test::Tolerance tolerance = test::tolerance_of(dtype);
  CHECK(test::normalised_error(found, expected) < slack * tolerance.relative);
  for (std::size_t i = 0; !is_16bit(dtype) && i < found.size(); ++i) {
    INFO("value " << i);
    CHECK(test::close(found[i], expected[i], {slack * tolerance.relative, slack * tolerance.absolute}));
  }
}

// The sum that the gradients are of: results times hashes.
Tensor loss_of(const Case& c, const RnnResult& result) {
  Tensor loss;
  const auto add = [&](const std::string& key, const Tensor& t) {
    const DType wide = wide_of(t.dtype());
    const Tensor hash = signed_unit(c.name + "." + key, t.shape()).to(test::test_device());
    const Tensor part = sum(cast(t, wide) * cast(hash, wide));
    loss = loss.defined() ? loss + part : part;
  };
  add("y", result.y);
  add("h_n", result.state.h);
  if (result.state.c.defined()) add("c_n", result.state.c);
  return loss;
}

// Runs `layers` on the case's inputs in `dtype` and checks outputs, states and their gradients.
template <class Layers>
void check_case(const Case& c, DType dtype, double slack, Layers&& layers) {
  const Tensor x = c.given("x", dtype);
  RnnState state;
  if (c.states()) state.h = c.given("h_0", dtype);
  if (c.states() && c.cell() == RnnCell::lstm) state.c = c.given("c_0", wide_of(dtype));
  const RnnResult result = layers(x, state);
  check("y", result.y.template to_vector<double>(), c.expected("y"), dtype, slack);
  check("h_n", result.state.h.template to_vector<double>(), c.expected("h_n"), dtype, slack);
  CHECK(result.state.c.defined() == (c.cell() == RnnCell::lstm));
  if (result.state.c.defined())
    check("c_n", result.state.c.template to_vector<double>(), c.expected("c_n"), dtype, slack);
  backward(loss_of(c, result));
  const auto check_gradient = [&](const std::string& key, const Tensor& leaf) {
    if (leaf.defined())
      check("gradient." + key, gradient_of(leaf).template to_vector<double>(), c.expected("gradient." + key),
            dtype, slack);
  };
  check_gradient("x", x);
  check_gradient("h_0", state.h);
  check_gradient("c_0", state.c);
}

// The layers of all cases under the names of the cases.
std::shared_ptr<nn::Sequential> all_layers() {
  auto all = std::make_shared<nn::Sequential>();
  for_each_case([&](const Case& c) {
    all->add(c.name, std::make_shared<nn::Recurrent>(c.inputs(), c.units(), c.options()));
  });
  return all;
}

std::string weights_path() { return test::source_path("tests/golden/recurrent_weights.safetensors"); }

// Leaves of the weights of a module's layers, in `dtype` and its arithmetic type, by name.
std::vector<std::pair<std::string, Tensor>> leaves_of(const nn::Module& module, DType dtype) {
  std::vector<std::pair<std::string, Tensor>> leaves;
  for (const auto& [name, parameter] : module.own_parameters()) {
    const DType wanted = name.starts_with("bias") ? wide_of(dtype) : dtype;
    leaves.emplace_back(name, leaf(cast(parameter.value(), wanted).detach()));
  }
  return leaves;
}

std::vector<RnnWeights> weights_of(const std::vector<std::pair<std::string, Tensor>>& leaves) {
  std::vector<RnnWeights> weights;
  for (const auto& [name, value] : leaves) {
    if (name.starts_with("weight_ih")) weights.push_back({.weight_ih = value});
    if (name.starts_with("weight_hh")) weights.back().weight_hh = value;
    if (name.starts_with("bias_ih")) weights.back().bias_ih = value;
    if (name.starts_with("bias_hh")) weights.back().bias_hh = value;
    if (name.starts_with("weight_hr")) weights.back().weight_hr = value;
  }
  return weights;
}

double slack_of(const Case& c, DType dtype) {
  if (!is_16bit(dtype)) return 1.0;
  return c.cell() == RnnCell::rnn_relu ? 10.0 : 3.0;
}

}  // namespace

TEST_CASE("recurrent layers with PyTorch's weights give its outputs, states and gradients", "[recurrent]") {
  const auto all = all_layers();
  const models::LoadReport report = models::load_weights(*all, weights_path());
  CHECK(report.differences().empty());
  all->to(test::test_device());
  for_each_case([&](const Case& c) {
    auto& layers = dynamic_cast<nn::Recurrent&>(*all->find(c.name));
    for (const DType dtype : {DType::f32, DType::f64}) {
      check_case(c, dtype, 1.0,
                 [&](const Tensor& x, const RnnState& state) { return layers(x, state, c.lengths()); });
      for (const auto& [name, parameter] : layers.own_parameters())
        check("gradient." + name, parameter.gradient().to_vector<double>(), c.expected("gradient." + name),
              DType::f32, 1.0);
      layers.clear_gradients();
    }
  });
}

TEST_CASE("recurrent layers of every type give PyTorch's outputs, states and gradients", "[recurrent]") {
  const auto all = all_layers();
  models::load_weights(*all, weights_path());
  all->to(test::test_device());
  for_each_case([&](const Case& c) {
    for (const bool recompute : {false, true}) {
      for (const DType dtype : test::kFloatingTypes) {
        INFO("recompute " << recompute);
        const auto leaves = leaves_of(*all->find(c.name), dtype);
        const std::vector<RnnWeights> weights = weights_of(leaves);
        const double slack = slack_of(c, dtype);
        check_case(c, dtype, slack, [&](const Tensor& x, const RnnState& state) {
          return rnn_stack(x, state, weights,
                           {.cell = c.cell(),
                            .bidirectional = c.options().bidirectional,
                            .recompute = recompute,
                            .lengths = c.lengths()});
        });
        for (const auto& [name, leaf] : leaves)
          check("gradient." + name, gradient_of(leaf).to_vector<double>(), c.expected("gradient." + name),
                dtype, slack);
      }
    }
  });
}

TEST_CASE("weights of recurrent layers have PyTorch's names, order and values in files", "[recurrent]") {
  const auto all = all_layers();
  const safetensors::File theirs(weights_path());
  models::load_weights(*all, theirs);
  std::vector<std::string> names;
  for (const Parameter& parameter : all->parameters()) names.push_back(parameter.name());
  const auto order = json::parse(theirs.metadata().at("order")).get<std::vector<std::string>>();
  // Cases stand in the order of their names here, and in the script's there.
  const auto of_case = [](const std::vector<std::string>& list, const std::string& name) {
    std::vector<std::string> some;
    std::ranges::copy_if(list, std::back_inserter(some),
                         [&](const std::string& each) { return each.starts_with(name + "."); });
    return some;
  };
  for_each_case([&](const Case& c) { CHECK(of_case(names, c.name) == of_case(order, c.name)); });
  CHECK(names.size() == order.size());

  const testing::TemporaryDirectory folder;
  const std::string path = (folder / "weights.safetensors").string();
  models::save_weights(*all, path);
  const safetensors::File ours(path);
  REQUIRE(ours.entries().size() == theirs.entries().size());
  for (const safetensors::Entry& entry : theirs.entries()) {
    INFO(entry.name);
    REQUIRE(ours.find(entry.name));
    CHECK(ours.find(entry.name)->dtype == entry.dtype);
    CHECK(ours.find(entry.name)->extents == entry.extents);
    CHECK(ours.read(entry.name).to_vector<float>() == theirs.read(entry).to_vector<float>());
  }
}

namespace {

// Parameters ½·sin j, j from 1 through all of them; x ½·sin(101 + i): two inputs, two units, three steps.
struct Sines {
  RnnCell cell;
  Tensor x;
  std::vector<Tensor> parameters;
  RnnResult result;

  explicit Sines(RnnCell cell) : cell(cell) {
    const auto sines = [](const Shape& shape, double first) {
      Values values(static_cast<std::size_t>(shape.numel()));
      for (double& value : values) value = 0.5 * std::sin(first++);
      return leaf(test::tensor_of(values, shape, DType::f64));
    };
    const Index gates = 2 * gates_of(cell);
    double first = 1;
    for (const Shape& shape : {Shape{gates, 2}, {gates, 2}, {gates}, {gates}}) {
      parameters.push_back(sines(shape, first));
      first += static_cast<double>(shape.numel());
    }
    x = sines({3, 1, 2}, 101);
    result =
        rnn_layer(x, {}, {parameters[0], parameters[1], parameters[2], parameters[3], {}}, {.cell = cell});
  }
  static void check(const Tensor& found, const Values& expected) {
    const Values values = found.to_vector<double>();
    REQUIRE(values.size() == expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == Approx(expected[i]).margin(6e-7));
  }
};

}  // namespace

TEST_CASE("an lstm of sines gives the vectors that were made for it", "[recurrent]") {
  const Sines lstm(RnnCell::lstm);
  Sines::check(lstm.result.y, {.007069, .068575, .089673, .142384, .072371, .202851});
  Sines::check(lstm.result.state.h, {.072371, .202851});
  Sines::check(lstm.result.state.c, {.134756, .455138});
  backward(sum(lstm.result.y) + 2.0 * sum(lstm.result.state.c));
  Sines::check(gradient_of(lstm.x), {-.021477, -.415894, .034614, -.419425, .115192, -.536734});
  for (const std::size_t bias : {2u, 3u})
    Sines::check(gradient_of(lstm.parameters[bias]),
                 {.195263, .733213, .093674, .181637, 3.115438, 1.529242, .072868, .267654});
}

TEST_CASE("a gru of sines gives the vectors that were made for it", "[recurrent]") {
  const Sines gru(RnnCell::gru);
  Sines::check(gru.result.y, {-.150553, -.255570, -.196680, -.434625, -.232391, -.357954});
  CHECK_FALSE(gru.result.state.c.defined());
  backward(sum(gru.result.y));
  Sines::check(gradient_of(gru.parameters[2]), {-.063247, -.068752, .312524, .383490, 1.064322, 1.003451});
  Sines::check(gradient_of(gru.parameters[3]), {-.063247, -.068752, .312524, .383490, .471141, .668141});
}
