// Optimizers beyond elementwise rules: inputs and permitted outputs of an update, and atomic steps.
#include "optim/update_context.h"

#include <limits>

#include "autograd/ops/reduce.h"
#include "core/backend.h"
#include "core/random.h"
#include "nn/layers/embedding.h"
#include "optim/adafactor.h"
#include "optim/adamw.h"
#include "optim/muon.h"
#include "optim/registry.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

struct SignOptions {
  std::optional<double> lr{};
  double weight_decay = 0.0;
  std::vector<optim::ParameterGroup> groups{};
};

// Each row moves by the sign of its momentum, times a running mean of its gradient's magnitude that begins
// at 1.
class SignByRow : public optim::Optimizer {
 public:
  static const optim::OptimizerRegistry::Entry& entry() {
    static const optim::OptimizerRegistry::Entry entry = optim::optimizer_entry<SignByRow, SignOptions>(
        {.name = "sign_by_row", .help = "signs", .lr = 0.1}, [](auto&) {});
    return entry;
  }
  explicit SignByRow(std::vector<Parameter> parameters, const SignOptions& options = {})
      : Optimizer(std::move(parameters), entry(), options) {}

  std::vector<optim::StateTensor> state_of(const Entry& entry) const override {
    const Shape& shape = entry.parameter.value().shape();
    return {{"momentum", shape}, {"magnitude", {shape[0], 1}, 1.0}};
  }
  void update(optim::UpdateContext& context) const override {
    for (optim::UpdatedParameter& p : context.parameters()) {
      const Shape rows{p.weight().shape()[0], p.weight().numel() / p.weight().shape()[0]};
      const Tensor gradient = p.gradient();
      const Tensor momentum = p.state("momentum") * 0.5 + gradient;
      p.set_state("momentum", momentum);
      const Tensor magnitude =
          p.state("magnitude") * 0.75 + mean(abs(gradient.viewed(rows)), {1}, true) * 0.25;
      p.set_state("magnitude", magnitude);
      const Tensor moved =
          (sign(momentum.viewed(rows)) * magnitude * p.lr() / p.number()).viewed(gradient.shape());
      p.set_weight(p.weight() - moved - p.weight() * p.lr() * p.weight_decay());
    }
  }
};

// The same for one parameter, in f64.
struct SignReference {
  std::vector<double> w, momentum, magnitude;
  double lr, weight_decay;
  int number = 0;

  void step(const std::vector<double>& g) {
    const std::size_t width = g.size() / magnitude.size();
    ++number;
    for (std::size_t r = 0; r < magnitude.size(); ++r) {
      double sum = 0.0;
      for (std::size_t i = r * width; i < (r + 1) * width; ++i) sum += std::abs(g[i]);
      magnitude[r] = 0.75 * magnitude[r] + 0.25 * sum / static_cast<double>(width);
      for (std::size_t i = r * width; i < (r + 1) * width; ++i) {
        momentum[i] = 0.5 * momentum[i] + g[i];
        const double sign = momentum[i] > 0.0 ? 1.0 : momentum[i] < 0.0 ? -1.0 : 0.0;
        w[i] -= sign * magnitude[r] * lr / number + w[i] * lr * weight_decay;
      }
    }
  }
};

template <class O>
std::unique_ptr<optim::Optimizer> made(Toy& toy) {
  return std::make_unique<O>(toy.parameters());
}
using Make = std::unique_ptr<optim::Optimizer> (*)(Toy&);
const std::vector<Make> kMakes{made<SignByRow>, made<optim::Muon>, made<optim::Adafactor>};

void check_same_state(const std::vector<optim::NamedTensor>& actual,
                      const std::vector<optim::NamedTensor>& expected, bool but_for_the_scale = false) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(expected[i].first);
    CHECK(actual[i].first == expected[i].first);
    const bool differs = expected[i].first.starts_with("scaler.") || expected[i].first.starts_with("step.");
    if (!but_for_the_scale || !differs) CHECK(same_tensor(actual[i].second, expected[i].second));
  }
}

}  // namespace

TEST_CASE("an update sees true gradients, the group's settings and its own state", "[update_context]") {
  const auto toy = weight_and_bias();
  SignByRow optimizer(toy->parameters(),
                      {.lr = 0.1,
                       .weight_decay = 0.05,
                       .groups = {{.match = "bias", .weight_decay = 0.0, .lr_factor = 0.5}}});
  optim::Step step(*toy, {&optimizer},
                   {.scaler = optim::ScalerOptions::fixed(1024.0),
                    .clip_norm = 1.5,
                    .clip_value = 0.6,
                    .accumulate = 2,
                    .ema = optim::EmaOptions{},
                    .working = DType::bf16});
  std::vector<SignReference> references;
  for (std::size_t p = 0; p < 2; ++p) {
    const std::vector<double> w = (*toy)[p].value().to_vector<double>();
    references.push_back({.w = w,
                          .momentum = std::vector<double>(w.size()),
                          .magnitude = std::vector<double>(p == 0 ? 2 : 3, 1.0),
                          .lr = p == 0 ? 0.1 : 0.05,
                          .weight_decay = p == 0 ? 0.05 : 0.0});
  }
  for (int t = 0; t < 6; ++t) {
    // The mean over both micro-batches; the bias has a gradient in even steps alone.
    std::vector<std::vector<double>> g(2);
    double squares = 0.0;
    for (std::size_t p = 0; p < 2; ++p) {
      if (p == 1 && t % 2 == 1) continue;
      const Values a = golden_gradient(p, (*toy)[p].value().numel(), 2 * t),
                   b = golden_gradient(p, (*toy)[p].value().numel(), 2 * t + 1);
      for (std::size_t i = 0; i < a.size(); ++i) {
        g[p].push_back((static_cast<double>(a[i]) + static_cast<double>(b[i])) / 2.0);
        squares += g[p].back() * g[p].back();
      }
    }
    for (std::size_t p = 0; p < 2; ++p) {
      if (g[p].empty()) continue;
      for (double& x : g[p]) x = std::clamp(x * std::min(1.0, 1.5 / std::sqrt(squares)), -0.6, 0.6);
      references[p].step(g[p]);
    }
    for (const int micro : {0, 1}) step.backward(golden_loss(*toy, 2 * t + micro, t % 2 == 0));
    step.apply();
  }
  for (std::size_t p = 0; p < 2; ++p) {
    const Values actual = values_of((*toy)[p].value());
    for (std::size_t i = 0; i < actual.size(); ++i)
      CHECK(static_cast<double>(actual[i]) == Approx(references[p].w[i]).margin(2e-6));
    CHECK(same_tensor(working_copy((*toy)[p].value(), DType::bf16).detach(),
                      cast((*toy)[p].value(), DType::bf16).detach()));
  }
  for (const auto& [name, tensor] : step.state()) {
    if (name == "updates.weight") CHECK(tensor.to_vector<std::int64_t>()[0] == 6);
    if (name == "updates.bias") CHECK(tensor.to_vector<std::int64_t>()[0] == 3);
    if (name == "moment.magnitude.bias") CHECK(tensor.shape() == Shape{3, 1});
    if (name == "moment.magnitude.weight")
      CHECK(tensor.to_vector<double>()[1] == Approx(references[0].magnitude[1]).margin(1e-6));
  }
}

TEST_CASE("a step that overflows leaves weights and declared state as they were", "[update_context]") {
  for (const Make make : kMakes) {
    const auto run = [&](bool overflows) {
      const auto toy = weight_and_bias();
      const auto optimizer = make(*toy);
      CAPTURE(optimizer->name());
      optim::Step step(
          *toy, {optimizer.get()},
          {.scaler =
               {.initial = 1024.0, .growth = 2.0, .backoff = 0.5, .interval = 100, .spare_forward = false},
           .ema = optim::EmaOptions{},
           .working = DType::f16});
      for (int t = 0; t < 4; ++t) {
        if (t == 2 && overflows) {
          const auto before = snapshot(step);
          step.backward(mul(golden_loss(*toy, 7), 1e38));
          step.apply();
          CHECK(step.synchronize().skip);
          check_same_state(snapshot(step), before, true);
        }
        step.backward(golden_loss(*toy, t));
        step.apply();
      }
      return snapshot(step);
    };
    check_same_state(run(true), run(false), true);
  }
}

// As a GPU does, which calls `update` in a skipped step too.
TEST_CASE("values set by an update are kept only if the device applies the step", "[update_context]") {
  for (const bool skip : {true, false}) {
    const auto toy = weight_and_bias();
    const SignByRow optimizer(toy->parameters());
    StepState decided;
    decided.skip = skip ? 1 : 0;
    decided.learning_rate = 0.1;
    const Tensor state = Tensor::empty({static_cast<Index>(sizeof(StepState))}, {.dtype = DType::u8});
    std::memcpy(state.raw(), &decided, sizeof(decided));
    const Tensor master = (*toy)[0].value().clone(), momentum = Tensor::zeros({2, 3}),
                 magnitude = Tensor::full({2, 1}, 1.0), counts = Tensor::zeros({2}, {.dtype = DType::i64}),
                 working = Tensor::zeros({6}, {.dtype = DType::bf16});
    const std::vector<UpdateRange> ranges{{.first = 0, .count = 6}};
    const optim::UpdateWork work{.optimizer = optimizer,
                                 .backend = backend_for({}),
                                 .buffers = {.master = master.viewed({6}),
                                             .gradient = Tensor::full({6}, 3.0),
                                             .working = working,
                                             .counts = counts},
                                 .clip_value = std::numeric_limits<double>::infinity(),
                                 .step = state,
                                 .ranges = ranges,
                                 .entries = {&optimizer.entries()[0]},
                                 .state = {{{"momentum", momentum}, {"magnitude", magnitude}}}};
    optim::UpdateContext context(work);
    optimizer.update(context);
    CHECK(same_bits(values_of(master), values_of((*toy)[0].value())) == skip);
    CHECK(same_bits(values_of(momentum), Values(6, 0.0f)) == skip);
    CHECK(values_of(momentum)[5] == (skip ? 0.0f : 3.0f));
    CHECK(values_of(magnitude)[0] == (skip ? 1.0f : 1.5f));
    CHECK(counts.to_vector<std::int64_t>()[0] == (skip ? 0 : 1));
    CHECK((values_of(cast(working, DType::f32))[0] != 0.0f) == !skip);
  }
}

TEST_CASE("declared state goes on bit for bit, inside an accumulation too", "[update_context]") {
  for (const Make make : kMakes) {
    struct Run {
      explicit Run(Make make) : optimizer(make(*toy)) {}
      std::shared_ptr<Toy> toy = weight_and_bias();
      std::unique_ptr<optim::Optimizer> optimizer;
      optim::Step step{*toy,
                       {optimizer.get()},
                       {.scaler = {.initial = 64.0, .growth = 2.0, .backoff = 0.5, .interval = 2},
                        .schedule = optim::cosine(0.1, 12, 0.0, {.steps = 3}),
                        .clip_norm = 1.0,
                        .accumulate = 2,
                        .ema = optim::EmaOptions{}}};
      void micro(int n) {
        Tensor loss = golden_loss(*toy, n, n % 3 != 0);
        if (n == 5) loss = mul(loss, 1e38);
        step.backward(loss);
        if (step.ready()) step.apply();
      }
    };
    Run straight(make);
    CAPTURE(straight.optimizer->name());
    for (int n = 0; n < 12; ++n) straight.micro(n);
    for (const int stop : {0, 4, 5, 6, 9}) {
      Run first(make), second(make);
      for (int n = 0; n < stop; ++n) first.micro(n);
      const auto saved = snapshot(first.step);
      second.micro(0);
      second.micro(1);
      second.step.load_state(saved);
      for (int n = stop; n < 12; ++n) second.micro(n);
      check_same_state(snapshot(second.step), snapshot(straight.step));
    }
  }
}

TEST_CASE("16-bit storage rounds what an update sets", "[update_context]") {
  const auto on_grid = [](const Tensor& tensor) {
    return same_bits(values_of(tensor), values_of(cast(cast(tensor, DType::bf16), DType::f32)));
  };
  for (const bool stochastic : {false, true})
    for (const Make make : kMakes) {
      const auto toy = weight_and_bias();
      const auto optimizer = make(*toy);
      CAPTURE(optimizer->name());
      optim::Step step(
          *toy, {optimizer.get()},
          {.rounding = {
               .weights = DType::bf16, .moments = DType::bf16, .stochastic = stochastic, .seed = 5}});
      for (int t = 0; t < 3; ++t) {
        step.backward(golden_loss(*toy, t));
        step.apply();
      }
      for (const auto& [name, tensor] : step.state())
        if (name.starts_with("master.") || name.starts_with("moment.")) CHECK(on_grid(tensor.detach()));
    }
}

TEST_CASE("parameters that Muon leaves to AdamW have AdamW's bits", "[update_context]") {
  struct Reader : nn::Module {
    Reader() {
      const RandomScope random(3, 0, 0);
      table = add_child("table", std::make_shared<nn::Embedding>(5, 4));
      head = add_parameter("head", Parameter(Tensor::full({4, 4}, 0.25)));
      bias = add_parameter("bias", Parameter(Tensor::full({4}, 0.5)));
    }
    Tensor forward(const Tensor& x) override { return sum(square(matmul((*table)(x), head) + bias)); }
    std::shared_ptr<nn::Embedding> table;
    Parameter head, bias;
  };
  const auto trained = [](const std::string& name, const options::Given& given) {
    Reader reader;
    const auto optimizer = optim::make_optimizer(name, reader.parameters(), given);
    optim::Step step(reader, {optimizer.get()});
    for (std::int64_t t = 0; t < 4; ++t) {
      step.backward(reader(Tensor::from(std::vector<std::int64_t>{t, 0, t}, {3})));
      step.apply();
    }
    return values_of(step.buffers().masters());
  };
  const options::Given none{
      {"groups", std::vector<options::Given>{options::Given{{"match", "head"}, {"adapt", false}}}}};
  CHECK(same_bits(trained("muon", none), trained("adamw", {{"weight_decay", 0.1}})));
  CHECK_FALSE(same_bits(trained("muon", {}), trained("adamw", {{"weight_decay", 0.1}})));
  CHECK_FALSE(same_bits(trained("muon", {{"adapt_tables", true}}), trained("muon", {})));
}

TEST_CASE("Newton–Schulz takes singular values to about one", "[update_context]") {
  for (const Shape& shape : {Shape{24, 7}, Shape{7, 24}}) {
    const Tensor matrix = Tensor::from(
        tabulate(shape.numel(), [](Index i) { return std::sin(0.7 * static_cast<double>(i * i)); }), shape);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor x = optim::newton_schulz(matrix, 5, 1e-7, dtype);
      CHECK(x.shape() == shape);
      const bool tall = shape[0] > shape[1];
      const std::vector<double> gram = matmul(x, x, tall, !tall).to_vector<double>();
      for (std::size_t i = 0; i < 7; ++i) CHECK(gram[8 * i] == Approx(0.85).margin(0.5));
      // The sum of the singular values is the product with the matrix's own directions: all positive.
      CHECK(sum(x * matrix).item() > 0.0);
    }
  }
}

TEST_CASE("Adafactor keeps a row and a column of a matrix, and a filter is one", "[update_context]") {
  auto toy = std::make_shared<Toy>();
  toy->add("filter", {4, 3, 3, 2}, [](Index i) { return std::sin(static_cast<double>(i)); });
  toy->add("same", {4, 18}, [](Index i) { return std::sin(static_cast<double>(i)); });
  optim::Adafactor adafactor(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&adafactor});
  for (int t = 0; t < 3; ++t) {
    const Values g = golden_gradient(0, 72, t);
    step.backward(add(product((*toy)[0], g), product((*toy)[1], g)));
    step.apply();
  }
  CHECK(same_bits(values_of((*toy)[0].value()), values_of((*toy)[1].value())));
  for (const auto& [name, tensor] : step.state()) {
    if (name == "moment.row.filter") CHECK(tensor.shape() == Shape{4, 1});
    if (name == "moment.column.filter") CHECK(tensor.shape() == Shape{1, 18});
  }
}

TEST_CASE("mistakes of an optimizer are explained", "[update_context]") {
  struct Wrong : SignByRow {
    using SignByRow::SignByRow;
    int mistake = 0;
    std::vector<optim::StateTensor> state_of(const Entry& entry) const override {
      auto state = SignByRow::state_of(entry);
      if (mistake == 0) state.push_back(state[0]);
      return state;
    }
    void update(optim::UpdateContext& context) const override {
      optim::UpdatedParameter& p = context.parameters()[0];
      if (mistake == 1) p.state("speed");
      if (mistake == 2) p.set_state("magnitude", Tensor::zeros({7}));
      if (mistake == 3) p.set_weight(cast(p.weight(), DType::bf16));
      if (mistake == 4) p.set_weight({});
    }
  };
  const auto message = [](int mistake) {
    return message_of([&] {
      const auto toy = weight_and_bias();
      Wrong wrong(toy->parameters());
      wrong.mistake = mistake;
      optim::Step step(*toy, {&wrong});
      step.backward(golden_loss(*toy, 0));
      step.apply();
    });
  };
  CHECK(message(0) == "[sign_by_row] \"momentum\" of parameter bias is declared twice");
  CHECK(message(1) == "[sign_by_row] keeps no \"speed\" of parameter bias: state_of declares it");
  CHECK(message(2) == "[sign_by_row] magnitude of parameter bias is f32[3,1], set to f32[7]");
  CHECK(message(3) == "[sign_by_row] weight of parameter bias is f32[3], set to bf16[3]");
  CHECK(message(4) == "[sign_by_row] weight of parameter bias is f32[3], set to absent");
}

TEST_CASE("an optimizer is added before the first use of optimizers", "[update_context]") {
  CHECK(optim::optimizers().find("sgd") != nullptr);
  CHECK_THROWS_WITH(optim::optimizers().add(SignByRow::entry()),
                    Catch::Contains("[optimizer] \"sign_by_row\" is added after the first use"));
}
