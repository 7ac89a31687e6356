// Update rules and schedules against PyTorch (tests/golden/optimizers.py; Adafactor also against
// transformers), LARS and LAMB against a loop in f64.
#include <cmath>
#include <map>

#include "optim/plateau.h"
#include "optim/registry.h"
#include "optim/sgd.h"
#include "tests/golden/optimizers.inc"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

using options::Given;

namespace {

struct Case {
  std::string key, optimizer;
  Given options;
  bool sparse = false, tall = false;
  std::optional<DType> working{};
  double margin = 5e-7;
};

std::vector<Case> golden_cases() {
  return {
      {"sgd", "sgd", {{"lr", 0.1}}},
      {"sgd_weight_decay", "sgd", {{"lr", 0.1}, {"weight_decay", 0.05}}},
      {"sgd_momentum", "sgd", {{"lr", 0.1}, {"weight_decay", 0.01}, {"momentum", 0.9}}},
      {"sgd_dampening", "sgd", {{"lr", 0.1}, {"weight_decay", 0.01}, {"momentum", 0.9}, {"dampening", 0.3}}},
      {"sgd_dampening_sparse", "sgd", {{"lr", 0.1}, {"momentum", 0.9}, {"dampening", 0.3}}, true},
      {"sgd_nesterov", "sgd", {{"lr", 0.1}, {"weight_decay", 0.01}, {"momentum", 0.9}, {"nesterov", true}}},
      {"sgd_groups",
       "sgd",
       {{"lr", 0.1},
        {"weight_decay", 0.05},
        {"momentum", 0.9},
        {"groups",
         std::vector<Given>{Given{{"match", "bias|bn"}, {"weight_decay", 0.0}, {"lr_factor", 0.2}}}}}},
      {"adam", "adam", {{"lr", 0.05}}},
      {"adam_options",
       "adam",
       {{"lr", 0.05}, {"weight_decay", 0.1}, {"beta1", 0.8}, {"beta2", 0.95}, {"eps", 1e-3}}},
      {"adam_amsgrad", "adam", {{"lr", 0.05}, {"beta1", 0.8}, {"beta2", 0.7}, {"amsgrad", true}}},
      {"adam_sparse", "adam", {{"lr", 0.05}}, true},
      {"adamw", "adamw", {{"lr", 0.05}}},
      {"adamw_options",
       "adamw",
       {{"lr", 0.05}, {"weight_decay", 0.3}, {"beta1", 0.8}, {"beta2", 0.95}, {"eps", 1e-3}}},
      {"adamw_amsgrad", "adamw", {{"lr", 0.05}, {"beta1", 0.8}, {"beta2", 0.7}, {"amsgrad", true}}},
      {"rmsprop", "rmsprop", {{"lr", 0.02}}},
      {"rmsprop_options", "rmsprop", {{"lr", 0.02}, {"weight_decay", 0.1}, {"eps", 1e-4}, {"alpha", 0.9}}},
      {"rmsprop_momentum", "rmsprop", {{"lr", 0.02}, {"momentum", 0.8}, {"alpha", 0.9}}},
      {"rmsprop_centered", "rmsprop", {{"lr", 0.02}, {"eps", 1e-2}, {"alpha", 0.9}, {"centered", true}}},
      {"rmsprop_centered_momentum",
       "rmsprop",
       {{"lr", 0.02}, {"momentum", 0.8}, {"eps", 1e-2}, {"alpha", 0.9}, {"centered", true}}},
      {"adagrad", "adagrad", {{"lr", 0.1}}},
      {"adagrad_options",
       "adagrad",
       {{"lr", 0.1}, {"weight_decay", 0.1}, {"eps", 1e-3}, {"lr_decay", 0.05}, {"initial_accumulator", 0.3}}},
      {.key = "muon", .optimizer = "muon", .options = {{"lr", 0.02}}, .margin = 2e-6},
      {.key = "muon_tall", .optimizer = "muon", .options = {{"lr", 0.02}}, .tall = true, .margin = 2e-6},
      {.key = "muon_options",
       .optimizer = "muon",
       .options = {{"lr", 0.05},
                   {"weight_decay", 0.3},
                   {"momentum", 0.8},
                   {"nesterov", false},
                   {"ns_steps", 3},
                   {"eps", 2.0},
                   {"adjust_lr", "match_rms_adamw"},
                   {"adamw_lr_factor", 0.2},
                   {"beta1", 0.8},
                   {"beta2", 0.95},
                   {"adamw_eps", 1e-3}},
       .tall = true,
       .margin = 2e-6},
      {.key = "muon_spectral",
       .optimizer = "muon",
       .options = {{"lr", 0.02}, {"adjust_lr", "spectral_unclamped"}},
       .sparse = true,
       .margin = 2e-6},
      // Ten steps of 0.02, of values that bfloat16 products round at 2^-8.
      {.key = "muon_bf16",
       .optimizer = "muon",
       .options = {{"lr", 0.02}},
       .working = DType::bf16,
       .margin = 2e-3},
      {"adafactor", "adafactor", {}},
      {.key = "adafactor_small_rate", .optimizer = "adafactor", .options = {{"lr", 1e-4}}, .tall = true},
      {"adafactor_options",
       "adafactor",
       {{"lr", 0.5},
        {"beta2_decay", 0.6},
        {"eps1", 0.3},
        {"eps2", 0.9},
        {"clip_threshold", 1.1},
        {"weight_decay", 0.1}},
       true},
      {"adafactor_fixed_rate",
       "adafactor",
       {{"lr", 0.02}, {"relative_step", false}, {"scale_parameter", false}}},
      {"adafactor_momentum",
       "adafactor",
       {{"lr", 0.02},
        {"relative_step", false},
        {"beta1", 0.9},
        {"beta2_decay", 0.7},
        {"clip_threshold", 0.5}}},
  };
}

// Weight and bias after ten steps.
Values trained(const Case& c, double scale = 1.0) {
  const auto toy = weight_and_bias(c.tall ? Shape{3, 2} : Shape{2, 3});
  const auto optimizer = optim::make_optimizer(c.optimizer, toy->parameters(), c.options);
  optim::Step step(*toy, {optimizer.get()}, {.scaler = {.initial = scale}, .working = c.working});
  for (int t = 0; t < 10; ++t) {
    step.backward(golden_loss(*toy, t, !c.sparse || t % 3 == 1));
    step.apply();
  }
  Values result = values_of((*toy)[0].value());
  const Values bias = values_of((*toy)[1].value());
  result.insert(result.end(), bias.begin(), bias.end());
  return result;
}

}  // namespace

TEST_CASE("update rules agree with PyTorch over ten steps", "[optim]") {
  const std::vector<Case> cases = golden_cases();
  REQUIRE(cases.size() == kOptimizers.size());
  for (const Case& c : cases) {
    CAPTURE(c.key);
    const std::vector<double>& expected = kOptimizers.at(c.key);
    const Values actual = trained(c);
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      CAPTURE(i);
      // Ten roundings of the f32 weight, and the last bits of the moments.
      CHECK(static_cast<double>(actual[i]) == Approx(expected[i]).epsilon(2e-6).margin(c.margin));
    }
  }
}

TEST_CASE("a power-of-two loss scale changes no bit", "[optim]") {
  for (const Case& c : golden_cases()) {
    CAPTURE(c.key);
    CHECK(same_bits(trained(c), trained(c, 4096.0)));
  }
}

namespace {

// One parameter under LARS or LAMB, written down from the papers in f64.
struct Reference {
  std::vector<double> w, m, v;
  bool adapt;
  double weight_decay;

  static double norm(const std::vector<double>& x) {
    double sum = 0.0;
    for (double value : x) sum += value * value;
    return std::sqrt(sum);
  }

  void lars(const Values& g, double lr, double momentum, double trust, double eps) {
    const std::vector<double> gradient(g.begin(), g.end());
    const double wn = norm(w), gn = norm(gradient);
    const double ratio = adapt && wn > 0 && gn > 0 ? trust * wn / (gn + weight_decay * wn + eps) : 1.0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      m[i] = momentum * m[i] + lr * ratio * (gradient[i] + weight_decay * w[i]);
      w[i] -= m[i];
    }
  }

  void lamb(const Values& g, double lr, int t, double beta1, double beta2, double eps) {
    std::vector<double> u(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double gi = static_cast<double>(g[i]);
      m[i] = beta1 * m[i] + (1 - beta1) * gi;
      v[i] = beta2 * v[i] + (1 - beta2) * gi * gi;
      const double mean = m[i] / (1 - std::pow(beta1, t)), square = v[i] / (1 - std::pow(beta2, t));
      u[i] = mean / (std::sqrt(square) + eps) + weight_decay * w[i];
    }
    const double ratio = adapt && norm(w) > 0 && norm(u) > 0 ? norm(w) / norm(u) : 1.0;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= lr * ratio * u[i];
  }
};

// Sizes: one that spans several blocks of the kernel with a tail, a vector, and weights that start at zero.
std::shared_ptr<Toy> layers() {
  auto toy = std::make_shared<Toy>();
  toy->add("conv", {97, 131}, [](Index i) { return std::sin(0.37 * static_cast<double>(i)); });
  toy->add("bn", {33}, [](Index i) { return 1.0 + 0.01 * static_cast<double>(i); });
  toy->add("zero", {5, 3}, [](Index) { return 0.0; });
  return toy;
}

void compare_with_reference(const std::string& name, const Given& options) {
  const auto toy = layers();
  std::vector<Reference> references;
  for (std::size_t p = 0; p < 3; ++p) {
    const std::vector<double> w = (*toy)[p].value().to_vector<double>();
    const std::vector<double> zeros(w.size());
    references.push_back({w, zeros, zeros, p != 1, p == 1 ? 0.0 : 0.02});
  }
  const auto optimizer = optim::make_optimizer(name, toy->parameters(), options);
  optim::Step step(*toy, {optimizer.get()});
  for (int t = 0; t < 10; ++t) {
    Tensor loss;
    for (std::size_t p = 0; p < 3; ++p) {
      const Values g = golden_gradient(p, (*toy)[p].value().numel(), t);
      loss = p == 0 ? product((*toy)[p], g) : add(loss, product((*toy)[p], g));
      if (name == "lars") {
        references[p].lars(g, 0.3, 0.9, 0.02, 1e-6);
      } else {
        references[p].lamb(g, 0.03, t + 1, 0.8, 0.9, 1e-5);
      }
    }
    step.backward(loss);
    step.apply();
  }
  for (std::size_t p = 0; p < 3; ++p) {
    const Values actual = values_of((*toy)[p].value());
    double worst = 0.0;
    for (std::size_t i = 0; i < actual.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(actual[i]) - references[p].w[i]));
    CAPTURE(p);
    CHECK(worst < 3e-6);  // ten f32 roundings of values around one
  }
}

}  // namespace

TEST_CASE("LARS follows its paper", "[optim]") {
  compare_with_reference("lars",
                         {{"lr", 0.3},
                          {"weight_decay", 0.02},
                          {"momentum", 0.9},
                          {"eps", 1e-6},
                          {"trust_coefficient", 0.02},
                          {"groups", std::vector<Given>{Given{{"match", "bn"}, {"weight_decay", 0.0}}}}});
}

TEST_CASE("LAMB follows its paper", "[optim]") {
  compare_with_reference("lamb",
                         {{"lr", 0.03},
                          {"weight_decay", 0.02},
                          {"beta1", 0.8},
                          {"beta2", 0.9},
                          {"eps", 1e-5},
                          {"groups", std::vector<Given>{Given{{"match", "bn"}, {"weight_decay", 0.0}}}}});
}

TEST_CASE("schedules agree with PyTorch", "[optim]") {
  const optim::Warmup warm{5, 0.2};
  const std::map<std::string, optim::Schedule> schedules = {
      {"constant", optim::constant(0.4)},
      {"constant_warmup", optim::constant(0.4, warm)},
      {"step", optim::step(0.4, 7, 0.5)},
      {"multi_step", optim::multi_step(0.4, {4, 11, 20})},
      {"multi_step_warmup", optim::multi_step(0.4, {4, 11, 20}, 0.1, {6, 0.2})},
      {"exponential", optim::exponential(0.4, 0.9)},
      {"polynomial", optim::polynomial(0.4, 25, 2.0)},
      {"cosine", optim::cosine(0.4, 29, 0.01)},
      {"cosine_warmup", optim::cosine(0.4, 30, 0.0, warm)},
      {"one_cycle", optim::one_cycle(0.4, 30)},
      {"one_cycle_linear",
       optim::one_cycle(0.4, 30, {.rise = 0.4, .div_factor = 10, .final_div_factor = 100, .linear = true})},
      {"one_cycle_three_phase", optim::one_cycle(0.4, 30, {.three_phase = true})},
      {"step_first", optim::step(0.4, 3, 0.8, {}, 12)},
      {"inverse_sqrt", optim::inverse_sqrt(0.4, {6, 0.2})},
      {"late_steps", optim::late_steps(0.4, {.begin = 20, .every = 2},
                                       {.steps = 5, .form = optim::WarmupForm::exponential})},
  };
  REQUIRE(schedules.size() == kSchedules.size());
  for (const auto& [name, schedule] : schedules) {
    CAPTURE(name);
    const std::vector<double>& expected = kSchedules.at(name);
    for (std::size_t t = 0; t < expected.size(); ++t) {
      CAPTURE(t);
      CHECK(schedule(static_cast<std::int64_t>(t)) == Approx(expected[t]).epsilon(1e-9).margin(1e-12));
    }
  }
}

TEST_CASE("a plateau lowers the rate where PyTorch's does", "[optim]") {
  const std::map<std::string, optim::PlateauOptions> cases = {
      {"word_language_model", {}},
      {"patience", {.factor = 0.5, .patience = 2}},
      {"threshold", {.factor = 0.1, .patience = 1, .threshold = 0.01}},
      {"least", {.min_lr = 0.5}},
      {"greater", {.factor = 0.5, .patience = 3, .threshold = 0.002}},
  };
  const std::vector<double>& figures = kPlateaus.at("figures");
  REQUIRE(cases.size() + 1 == kPlateaus.size());
  for (const auto& [name, options] : cases) {
    CAPTURE(name);
    optim::PlateauState state;
    optim::RateTable table(optim::constant(20.0), {});
    for (std::size_t i = 0; i < figures.size(); ++i) {
      CAPTURE(i);
      const double before = state.factor;
      const bool lowered =
          optim::observe(state, options, figures[i], static_cast<std::int64_t>(i) + 1, name == "greater");
      CHECK(lowered == (state.factor < before));
      table.set_factor({.factor = state.factor, .least = options.min_lr});
      table.fill(0, 0);
      CHECK(table.on_device().data<double>()[1] == Approx(kPlateaus.at(name)[i]).epsilon(1e-10));
    }
  }
}

TEST_CASE("a uniform mean of the weights is that of PyTorch's ASGD", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd}, {.ema = optim::EmaOptions{.uniform = true}});
  for (int t = 0; t < 10; ++t) {
    if (t == 4) step.begin_average();
    step.backward(golden_loss(*toy, t));
    step.apply();
  }
  const std::vector<double>& expected = kAverages.at("asgd");
  const auto compare = [&](std::size_t first) {
    const Values bias = values_of((*toy)[1].value());
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(static_cast<double>(bias[i]) == Approx(expected[first + i]).epsilon(1e-6));
  };
  compare(0);
  const optim::Ema::Scope averaged(*step.ema());
  compare(3);
}
