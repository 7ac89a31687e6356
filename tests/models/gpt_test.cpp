// GPT: values of whole tiny models that were computed elsewhere in FP64, and the cache of keys and values.
#include "models/gpt.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/loss.h"
#include "core/random.h"
#include "models/registry.h"
#include "optim/adam.h"
#include "optim/step.h"
#include "tests/support/temporary_files.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;

namespace {

using Options = models::GptOptions;

Options tiny_gpt2() {
  return {.vocabulary = 5,
          .layers = 1,
          .width = 4,
          .heads = 2,
          .context = 3,
          .activation = nn::BlockActivation::gelu_tanh};
}

Options tiny_llama() {
  return {.vocabulary = 5,
          .layers = 1,
          .width = 4,
          .heads = 2,
          .kv_heads = 1,
          .context = 3,
          .inner = 6,
          .bias = false,
          .activation = nn::BlockActivation::swiglu,
          .norm = nn::BlockNorm::rms,
          .positions = models::GptPositions::rotary,
          .tied = false};
}

Options small(models::GptPositions positions) {
  return {.vocabulary = 11,
          .layers = 2,
          .width = 16,
          .heads = 4,
          .kv_heads = 2,
          .context = 80,
          .positions = positions};
}

Tensor column(const std::vector<std::int64_t>& words) {
  return Tensor::from(words, {static_cast<Index>(words.size()), 1}, test::test_device());
}

// Element j, counted from 1 through the parameters in this order, is ½·sin j.
void set_sines(models::Gpt& model, const std::vector<std::string>& order) {
  std::map<std::string, Parameter> by_name;
  for (const Parameter& parameter : model.parameters()) by_name.emplace(parameter.name(), parameter);
  REQUIRE(by_name.size() == order.size());
  Index j = 0;
  for (const std::string& name : order) {
    INFO(name);
    REQUIRE(by_name.contains(name));
    const Tensor& value = by_name.at(name).value();
    std::vector<double> sines;
    for (Index i = 0; i < value.numel(); ++i) sines.push_back(0.5 * std::sin(static_cast<double>(++j)));
    backend_for(value.device()).copy_bytes(test::tensor_of(sines, value.shape(), DType::f32), value);
  }
}

double norm_of(const Tensor& gradient) {
  double squares = 0.0;
  for (const double g : gradient.to_vector<double>()) squares += g * g;
  return std::sqrt(squares);
}

struct Expected {
  double loss, norm;
  std::vector<double> logits;              // of the first position
  std::map<std::string, double> of_norms;  // of gradients
};

void check_tiny(models::Gpt& model, const Expected& expected) {
  const Tensor logits = model(column({0, 3, 1}));
  const Tensor loss = cross_entropy(logits, column({3, 1, 4}));
  backward(loss);
  const auto close = [](double value) { return Approx(value).margin(2e-6); };
  CHECK(loss.item() == close(expected.loss));
  const std::vector<double> scores = logits.to_vector<double>();
  for (std::size_t i = 0; i < 5; ++i) CHECK(scores[i] == close(expected.logits[i]));
  double squares = 0.0;
  for (const Parameter& parameter : model.parameters()) {
    const double norm = norm_of(parameter.gradient());
    squares += norm * norm;
    if (const auto found = expected.of_norms.find(parameter.name()); found != expected.of_norms.end()) {
      INFO(parameter.name());
      CHECK(norm == close(found->second));
    }
  }
  CHECK(std::sqrt(squares) == close(expected.norm));
}

Tensor drawn_words(Index steps, Index rows, Index vocabulary, std::uint64_t seed = 3) {
  RandomStream random({.seed = seed});
  std::vector<std::int64_t> words;
  for (Index i = 0; i < steps * rows; ++i)
    words.push_back(random.below(static_cast<std::uint32_t>(vocabulary)));
  return Tensor::from(words, {steps, rows}, test::test_device());
}

}  // namespace

TEST_CASE("a tiny GPT-2 has the values of another implementation", "[gpt]") {
  models::Gpt model(tiny_gpt2());
  CHECK(model.parameter_count() == 284);
  const std::string h = "h.0.";
  set_sines(model, {"wte.weight", "wpe.weight", h + "ln_1.weight", h + "ln_1.bias", h + "attn.c_attn.weight",
                    h + "attn.c_attn.bias", h + "attn.c_proj.weight", h + "attn.c_proj.bias",
                    h + "ln_2.weight", h + "ln_2.bias", h + "mlp.c_fc.weight", h + "mlp.c_fc.bias",
                    h + "mlp.c_proj.weight", h + "mlp.c_proj.bias", "ln_f.weight", "ln_f.bias"});
  check_tiny(model, {.loss = 1.31841998,
                     .norm = 0.62282303,
                     .logits = {-0.231603, 0.341664, -0.215050, -0.060532, 0.294182},
                     .of_norms = {{"wte.weight", 0.29003778},
                                  {"wpe.weight", 0.08152980},
                                  {h + "attn.c_attn.weight", 0.11286495},
                                  {h + "mlp.c_fc.weight", 0.09837527},
                                  {"ln_f.weight", 0.40397690}}});
}

// Queries, keys and values, gates and the other half lie in the order of one weight each.
TEST_CASE("a tiny Llama has the values of another implementation", "[gpt]") {
  models::Gpt model(tiny_llama());
  CHECK(model.parameter_count() == 172);
  const std::string h = "h.0.";
  set_sines(model,
            {"wte.weight", h + "attn.c_attn.weight", h + "attn.c_proj.weight", h + "mlp.c_fc.weight",
             h + "mlp.c_proj.weight", h + "ln_1.weight", h + "ln_2.weight", "ln_f.weight", "lm_head.weight"});
  check_tiny(model, {.loss = 1.63683964,
                     .norm = 0.87794265,
                     .logits = {-0.024376, -0.159619, 0.233044, -0.145036, -0.043440},
                     .of_norms = {{"lm_head.weight", 0.45170480}}});
}

TEST_CASE("GPT-2 has the published number of parameters, names and initial weights", "[gpt]") {
  const RandomScope random(7, 0, 0);
  models::Gpt model({.vocabulary = 65, .layers = 6, .width = 384, .heads = 6, .context = 256, .bias = false});
  CHECK(model.parameter_count() == 10'745'088);
  for (const Parameter& parameter : model.parameters()) {
    INFO(parameter.name());
    const auto values = parameter.value().to_vector<double>();
    if (parameter.value().rank() == 1) {
      CHECK(std::ranges::all_of(values, [](double value) { return value == 1.0; }));
      continue;
    }
    double squares = 0.0;
    for (const double value : values) squares += value * value;
    const double wanted = parameter.name().ends_with("c_proj.weight") ? 0.02 / std::sqrt(12.0) : 0.02;
    CHECK(std::sqrt(squares / static_cast<double>(values.size())) == Approx(wanted).epsilon(0.02));
  }
  // The first loss is that of equal probabilities.
  const Tensor words = drawn_words(17, 4, 65);
  model.to(test::test_device());
  const NoGrad no_grad;
  const double loss = cross_entropy(model(words.rows(0, 16)), words.rows(1, 16)).item();
  CHECK(std::abs(loss - std::log(65.0)) < 0.1);
}

TEST_CASE("a small GPT learns a batch by heart", "[gpt]") {
  const RandomScope random(1, 0, 0);
  models::Gpt model(small(models::GptPositions::learned));
  model.to(test::test_device());
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  optim::Step step(model, {&optimizer}, {});
  const Tensor words = drawn_words(17, 2, 11);
  double last = 0.0;
  for (int i = 0; i < 80; ++i) {
    const Tensor loss = cross_entropy(model(words.rows(0, 16)), words.rows(1, 16));
    last = loss.item();
    step.backward(loss);
    step.apply();
  }
  CHECK(last < 0.05);
}

TEST_CASE("texts read in pieces through the cache have the scores of the whole", "[gpt]") {
  const auto positions = GENERATE(models::GptPositions::learned, models::GptPositions::rotary,
                                  models::GptPositions::alibi, models::GptPositions::none);
  const auto piece = GENERATE(as<Index>(), 1, 7, 64);
  const RandomScope random(2, 0, 0);
  models::Gpt model(small(positions));
  model.to(test::test_device());
  model.eval();
  const NoGrad no_grad;
  const Index steps = 70;  // beyond the first capacity of the cache
  const Tensor words = drawn_words(steps, 3, 11);
  const std::vector<double> whole = model(words).to_vector<double>();
  models::State state = model.begin(3);
  std::vector<double> pieces;
  for (Index first = 0; first < steps; first += piece) {
    const auto advanced = model.advance(words.rows(first, std::min(piece, steps - first)), state);
    state = advanced.state;
    for (const double score : model.scores(advanced.hidden).to_vector<double>()) pieces.push_back(score);
  }
  CHECK(test::normalised_error(pieces, whole) < 1e-5);
}

TEST_CASE("rows of a batch generate as if alone, whatever their lengths", "[gpt]") {
  const auto positions = GENERATE(models::GptPositions::learned, models::GptPositions::rotary,
                                  models::GptPositions::alibi, models::GptPositions::none);
  const RandomScope random(2, 0, 0);
  models::Gpt model(small(positions));
  model.to(test::test_device());
  model.eval();
  const NoGrad no_grad;
  const Tensor words = drawn_words(12, 3, 11);
  const std::vector<std::int64_t> ids = words.to_vector<std::int64_t>();
  const std::vector<std::int64_t> lengths{3, 9, 6};
  models::State state = model.begin(3);
  auto advanced = model.advance(words.rows(0, 9), state, Tensor::from(lengths, {3}));
  // Three more of each row, two at once and one.
  std::vector<std::int64_t> more;
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t n = 0; n < 3; ++n)
      more.push_back(ids[(static_cast<std::size_t>(lengths[n]) + t) * 3 + n]);
  const Tensor next = Tensor::from(more, {3, 3}, test::test_device());
  advanced = model.advance(next.rows(0, 2), advanced.state);
  // Rows may be chosen again and in another order.
  const std::vector<std::int64_t> chosen{2, 0, 1};
  const models::State selected = advanced.state.select(Tensor::from(chosen, {3}, test::test_device()));
  std::vector<std::int64_t> last;
  for (const std::int64_t n : chosen) last.push_back(more[static_cast<std::size_t>(6 + n)]);
  advanced = model.advance(Tensor::from(last, {1, 3}, test::test_device()), selected);
  const std::vector<double> scores = model.scores(advanced.hidden).to_vector<double>();
  for (std::size_t i = 0; i < 3; ++i) {
    const auto n = static_cast<std::size_t>(chosen[i]);
    std::vector<std::int64_t> alone;
    for (std::size_t t = 0; t < static_cast<std::size_t>(lengths[n]) + 3; ++t)
      alone.push_back(ids[t * 3 + n]);
    const std::vector<double> all = model(column(alone)).to_vector<double>();
    CHECK(test::normalised_error({scores.begin() + static_cast<std::ptrdiff_t>(i * 11),
                                  scores.begin() + static_cast<std::ptrdiff_t>(i * 11 + 11)},
                                 {all.end() - 11, all.end()}) < 1e-5);
  }
}

TEST_CASE("the order of words matters with each kind of positions", "[gpt]") {
  const auto positions = GENERATE(models::GptPositions::learned, models::GptPositions::rotary,
                                  models::GptPositions::alibi, models::GptPositions::none);
  const RandomScope random(2, 0, 0);
  models::GptOptions options = small(positions);
  models::Gpt model(options);
  model.to(test::test_device());
  model.eval();
  const NoGrad no_grad;
  const auto last = [&](const std::vector<std::int64_t>& words) {
    const auto scores = model(column(words)).to_vector<double>();
    return std::vector<double>(scores.end() - 11, scores.end());
  };
  CHECK(test::normalised_error(last({1, 2, 3, 4}), last({2, 1, 3, 4})) > 1e-5);
}

// The distance to a word lowers its weight: a word has less effect the farther away it is.
TEST_CASE("attention of alibi positions falls with the distance", "[gpt]") {
  const RandomScope random(4, 0, 0);
  models::Gpt model({.vocabulary = 11,
                     .layers = 1,
                     .width = 16,
                     .heads = 4,
                     .context = 8,
                     .positions = models::GptPositions::alibi});
  model.to(test::test_device());
  model.eval();
  const NoGrad no_grad;
  // Beyond the context, which limits learned positions alone.
  std::vector<std::int64_t> words(64, 3);
  const auto effect = [&](std::size_t at) {
    const auto before = model(column(words)).to_vector<double>();
    std::vector<std::int64_t> changed = words;
    changed[at] = 7;
    const auto after = model(column(changed)).to_vector<double>();
    double most = 0.0;
    for (std::size_t i = after.size() - 11; i < after.size(); ++i)
      most = std::max(most, std::abs(after[i] - before[i]));
    return most;
  };
  CHECK(effect(60) > 1.5 * effect(40));
  CHECK(effect(40) > 1.5 * effect(5));
}

TEST_CASE("texts of a batch end at the context one by one", "[gpt]") {
  const RandomScope random(2, 0, 0);
  models::GptOptions options = small(models::GptPositions::learned);
  options.context = 8;
  models::Gpt model(options);
  model.to(test::test_device());
  model.eval();
  const NoGrad no_grad;
  const auto lengths = [](std::int64_t a, std::int64_t b) {
    return Tensor::from(std::vector<std::int64_t>{a, b}, {2});
  };
  const Tensor words = drawn_words(8, 2, 11);
  const models::State begun = model.advance(words, model.begin(2), lengths(8, 5)).state;
  // The first text is complete, the second one goes on.
  const Tensor more = drawn_words(3, 2, 11, 5);
  const auto advanced = model.advance(more, begun, lengths(0, 3));
  std::vector<std::int64_t> second;
  for (Index t = 0; t < 5; ++t)
    second.push_back(words.to_vector<std::int64_t>()[static_cast<std::size_t>(2 * t + 1)]);
  for (Index t = 0; t < 3; ++t)
    second.push_back(more.to_vector<std::int64_t>()[static_cast<std::size_t>(2 * t + 1)]);
  const auto whole = model(column(second)).to_vector<double>();
  const auto pieces = model.scores(advanced.hidden).to_vector<double>();
  CHECK(test::normalised_error({pieces.end() - 11, pieces.end()}, {whole.end() - 11, whole.end()}) < 1e-5);
  CHECK_THAT(user_error_of([&] { model.advance(drawn_words(4, 2, 11), begun, lengths(0, 4)); }),
             Contains("a text of 9 tokens is longer than the context of 8"));
  CHECK_THAT(user_error_of([&] { model.advance(more, begun, lengths(1, 3)); }),
             Contains("a text of 9 tokens is longer than the context of 8"));
}

TEST_CASE("a cache of several texts hands out its own memory", "[gpt]") {
  const Tensor keys = test::random_tensor({3, 2, 4}), values = test::random_tensor({3, 2, 4});
  nn::KeyValueCache cache(2, {0, 0, 0});
  const auto seen = cache.append(1, keys, values);
  CHECK(seen.keys.shares_storage(cache.memory().keys));
  CHECK(seen.values.shares_storage(cache.memory().values));
  CHECK(seen.count == 2);
}

TEST_CASE("texts longer than learned positions and heads that do not fit are errors", "[gpt]") {
  models::Gpt model(tiny_gpt2());
  model.to(test::test_device());
  CHECK_THAT(user_error_of([&] {
               model(column({0, 1, 2, 3}));
             }),
             Contains("a text of 4 tokens is longer than the context of 3") && Contains("model.context"));
  CHECK_THAT(user_error_of([] {
               models::create("gpt", {{"width", 12}, {"heads", 5}});
             }),
             Contains("[model.heads] must divide the width 12, is 5"));
  CHECK_THAT(user_error_of([] {
               models::create("gpt", {{"width", 12}, {"heads", 6}, {"kv_heads", 4}});
             }),
             Contains("[model.heads] must be a multiple of kv_heads, 4, is 6"));
  CHECK_THAT(user_error_of([] {
               models::create("gpt", {{"width", 12}, {"heads", 4}, {"positions", "rotary"}});
             }),
             Contains("even number of features"));
}
