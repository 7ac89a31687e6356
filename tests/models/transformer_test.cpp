// The encoder–decoder Transformer: sizes and initial values, cached keys and values, padding, errors. Its
// values are compared with PyTorch's in tests/golden/transformer_test.cpp.
#include "models/transformer.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "core/random.h"
#include "models/registry.h"
#include "optim/adam.h"
#include "optim/step.h"
#include "tests/support/temporary_files.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;
using Catch::Contains;
using models::Transformer;
using testing::user_error_of;

namespace {

constexpr Index kWords = 13;

models::TransformerOptions small_transformer() {
  return {.source_words = kWords,
          .target_words = kWords,
          .encoder_layers = 2,
          .decoder_layers = 2,
          .width = 16,
          .heads = 4,
          .inner = 24,
          .dropout = 0.0,
          .shared = true};
}

std::shared_ptr<Transformer> made(const models::TransformerOptions& options) {
  const RandomScope random(2, 0, 0);
  const auto model = std::make_shared<Transformer>(options);
  model->to(test::test_device());
  return model;
}

Tensor drawn(Index steps, Index rows, std::uint64_t seed, Index words = kWords) {
  RandomStream random({.seed = seed});
  std::vector<std::int64_t> ids;
  for (Index i = 0; i < steps * rows; ++i) ids.push_back(random.below(static_cast<std::uint32_t>(words)));
  return Tensor::from(ids, {steps, rows}, test::test_device());
}

Tensor lengths_of(const std::vector<std::int64_t>& lengths) {
  return Tensor::from(lengths, {static_cast<Index>(lengths.size())});
}

// Column `column` of words [T,N], its first `steps`.
Tensor column_of(const Tensor& words, Index column, Index steps) {
  return slice(slice(words, 1, column, column + 1), 0, 0, steps);
}

// Each column `width` times, adjacent.
Tensor repeated(const Tensor& words, Index width) {
  TensorList columns;
  for (Index n = 0; n < words.size(1); ++n)
    for (Index w = 0; w < width; ++w) columns.push_back(slice(words, 1, n, n + 1));
  return concat(columns, 1);
}

std::vector<double> values_of(const Tensor& x) { return x.to_vector<double>(); }

}  // namespace

TEST_CASE("a small translation Transformer has the published number of parameters", "[transformer]") {
  models::TransformerOptions options{.source_words = 8000, .target_words = 8000, .shared = true};
  CHECK(Transformer(options).parameter_count() == 7'577'600 + 4 * 256);
  options.tied = false;
  CHECK(Transformer(options).parameter_count() == 7'577'600 + 4 * 256 + 8000 * 256);
}

TEST_CASE("the first loss of a Transformer is near that of equal probabilities", "[transformer]") {
  const NoGrad no_grad;
  constexpr Index kMany = 1000;
  const Tensor source = drawn(12, 8, 1, kMany), read = drawn(12, 8, 2, kMany),
               target = drawn(12, 8, 3, kMany);
  const auto first_loss = [&](bool tied) {
    const auto model = made({.source_words = kMany,
                             .target_words = kMany,
                             .width = 64,
                             .inner = 128,
                             .shared = true,
                             .tied = tied});
    model->eval();
    return cross_entropy((*model)(source, {}, read), target).item();
  };
  const double equal = std::log(static_cast<double>(kMany));
  CHECK(std::abs(first_loss(false) - equal) < 0.2);
  // Scores of the tied table have a variance of 1, which costs ½.
  CHECK(std::abs(first_loss(true) - equal - 0.5) < 0.3);
}

TEST_CASE("a small Transformer learns a batch by heart", "[transformer]") {
  const auto model = made(small_transformer());
  optim::Adam optimizer(model->parameters(), {.lr = 1e-2});
  optim::Step step(*model, {&optimizer}, {});
  const Tensor source = drawn(7, 3, 1), words = drawn(9, 3, 2);
  double last = 0.0;
  for (int i = 0; i < 80; ++i) {
    const Tensor loss = cross_entropy((*model)(source, {}, words.rows(0, 8)), words.rows(1, 8));
    last = loss.item();
    step.backward(loss);
    step.apply();
  }
  CHECK(last < 0.05);
}

TEST_CASE("a Transformer writes in pieces, through the cache, what it says of whole texts", "[transformer]") {
  const NoGrad no_grad;
  const auto model = made(small_transformer());
  model->eval();
  const Index steps = 70;  // beyond the first capacity of the cache
  const Tensor source = drawn(6, 3, 1), words = drawn(steps, 3, 2), lengths = lengths_of({6, 2, 4});
  const auto whole = values_of((*model)(source, lengths, words));
  const auto memory = model->encode(source, lengths);
  for (const Index piece : {1, 7, 64}) {
    models::State state;
    std::vector<double> pieces;
    for (Index first = 0; first < steps; first += piece) {
      const auto advanced = model->advance(words.rows(first, std::min(piece, steps - first)), memory, state);
      state = advanced.state;
      for (const double score : values_of(model->scores(advanced.hidden))) pieces.push_back(score);
    }
    CHECK(test::normalised_error(pieces, whole) < 1e-5);
  }
}

TEST_CASE("hypotheses of a Transformer share the memory of their source and follow their rows",
          "[transformer]") {
  const NoGrad no_grad;
  const auto model = made(small_transformer());
  model->eval();
  const Index width = 3, sources = 2, rows = width * sources;
  const Tensor source = drawn(5, sources, 1), words = drawn(4, rows, 2);
  const std::vector<std::int64_t> lengths{3, 5}, chosen{2, 2, 0, 4, 3, 4};
  const auto memory = model->encode(source, lengths_of(lengths));
  models::State state;
  for (Index t = 0; t < 2; ++t) state = model->advance(words.rows(t, 1), memory, state).state;
  const Tensor parents = Tensor::from(chosen, {rows}, test::test_device());
  state = model->advance(words.rows(2, 1), memory, state.select(parents)).state;
  const auto last = values_of(model->scores(model->advance(words.rows(3, 1), memory, state).hidden));

  // Each row as a whole text, whose first two words are its parent's.
  TensorList columns;
  for (Index row = 0; row < rows; ++row)
    columns.push_back(concat({column_of(words, chosen[static_cast<std::size_t>(row)], 2),
                              slice(slice(words, 1, row, row + 1), 0, 2, 4)},
                             0));
  std::vector<std::int64_t> longer;
  for (const std::int64_t length : lengths) longer.insert(longer.end(), width, length);
  const Tensor all = (*model)(repeated(source, width), lengths_of(longer), concat(columns, 1));
  CHECK(test::normalised_error(last, values_of(all.rows(3, 1))) < 1e-5);
}

TEST_CASE("padding and the other texts of a batch change nothing for a Transformer", "[transformer]") {
  const NoGrad no_grad;
  const auto model = made(small_transformer());
  model->eval();
  const std::vector<std::int64_t> lengths{9, 1, 4};
  const std::vector<Index> written{5, 8, 2};
  const Tensor source = drawn(9, 3, 1), words = drawn(8, 3, 2);
  const Tensor all = (*model)(source, lengths_of(lengths), words);
  for (Index n = 0; n < 3; ++n) {
    const auto i = static_cast<std::size_t>(n);
    const Tensor alone = (*model)(column_of(source, n, lengths[i]), {}, column_of(words, n, written[i]));
    CHECK(test::normalised_error(values_of(column_of(all, n, written[i])), values_of(alone)) < 1e-5);
  }
  // A text without words is read too.
  const auto nothing = values_of((*model)(source, lengths_of({0, 9, 9}), words));
  CHECK(std::ranges::all_of(nothing, [](double score) { return std::isfinite(score); }));
}

TEST_CASE("gradients of a Transformer are those of its micro-batches", "[transformer]") {
  const Tensor source = drawn(6, 4, 1), read = drawn(5, 4, 2), target = drawn(5, 4, 3);
  const std::vector<std::int64_t> lengths{6, 3, 2, 5};
  const auto gradients = [&](Index parts) {
    const auto model = made(small_transformer());
    const Index rows = 4 / parts;
    for (Index first = 0; first < 4; first += rows) {
      const auto own = [&](const Tensor& words) { return slice(words, 1, first, first + rows); };
      const auto from = lengths.begin() + first;
      const Tensor scores = (*model)(own(source), lengths_of({from, from + rows}), own(read));
      backward(cross_entropy(scores, own(target), {.reduce = Reduce::sum}));
    }
    std::vector<std::vector<double>> all;
    for (const Parameter& parameter : model->parameters()) all.push_back(values_of(parameter.gradient()));
    return all;
  };
  const auto whole = gradients(1);
  for (const Index parts : {2, 4}) {
    const auto divided = gradients(parts);
    REQUIRE(divided.size() == whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) CHECK(test::normalised_error(divided[i], whole[i]) < 2e-5);
  }
}

TEST_CASE("positions of a Transformer have no end", "[transformer]") {
  const NoGrad no_grad;
  models::TransformerOptions options = small_transformer();
  options.encoder_layers = options.decoder_layers = 1;
  const auto model = made(options);
  model->eval();
  const Tensor source = drawn(600, 1, 1), words = drawn(520, 1, 2);
  const auto memory = model->encode(source, {});
  const auto begun = model->advance(words.rows(0, 510), memory, {});
  const auto rest = model->advance(words.rows(510, 10), memory, begun.state);
  CHECK(test::normalised_error(values_of(model->scores(rest.hidden)),
                               values_of((*model)(source, {}, words).rows(510, 10))) < 1e-5);
}

TEST_CASE("parts of a Transformer say in pieces what the whole says, with positions beyond its first table",
          "[transformer]") {
  const NoGrad no_grad;
  const auto model = made(small_transformer());
  model->eval();
  const Index steps = 515, rows = 2;
  const Tensor source = drawn(513, rows, 1), words = drawn(steps, rows, 2), lengths = lengths_of({513, 200});
  const auto parts = model->parts(520);
  REQUIRE(parts.size() == 2);
  const TensorList memory = parts[0].forward({transpose(source, 0, 1), lengths});
  TensorList past(4, Tensor::zeros({rows, 4, 0, 4}, {.device = test::test_device()})), scores;
  for (const auto& [first, last] : {std::pair<Index, Index>{0, 1}, {1, 500}, {500, 515}}) {
    std::vector<std::int64_t> positions;
    for (Index i = 0; i < rows * (last - first); ++i) positions.push_back(first + i % (last - first));
    TensorList given{transpose(words.rows(first, last - first), 0, 1),
                     Tensor::from(positions, {rows, last - first}, test::test_device()), lengths};
    given.insert(given.end(), memory.begin(), memory.end());
    given.insert(given.end(), past.begin(), past.end());
    REQUIRE(given.size() == parts[1].inputs.size());
    const TensorList found = parts[1].forward(given);
    REQUIRE(found.size() == parts[1].outputs.size());
    scores.push_back(transpose(found[0], 0, 1));
    past.assign(found.begin() + 1, found.end());
  }
  CHECK(test::normalised_error(values_of(concat(scores, 0)), values_of((*model)(source, lengths, words))) <
        1e-5);
}

TEST_CASE("errors of a Transformer name the option or the misfit", "[transformer]") {
  CHECK_THAT(user_error_of([] {
               models::create("transformer", {{"width", 12}, {"heads", 5}});
             }),
             Contains("[model.heads] must divide the width 12, is 5"));
  CHECK_THAT(user_error_of([] {
               models::create("transformer", {{"shared", true}},
                              {.words = 5, .target_words = 5, .shared_words = false});
             }),
             Contains("[model.shared] one table for both sides needs data with one codec"));
  models::TransformerOptions options = small_transformer();
  options.target_words = 6;
  CHECK_THAT(user_error_of([&] { Transformer model(options); }),
             Contains("13 words of the source and 6 of the target"));
  options = small_transformer();
  options.inner = 0;
  CHECK_THAT(user_error_of([&] { Transformer model(options); }), Contains("16 and 0"));
  options = small_transformer();
  options.heads = 3;
  CHECK_THAT(user_error_of([&] { Transformer model(options); }),
             Contains("[self_attention] 3 heads do not divide 16 features"));

  const auto model = made(small_transformer());
  const NoGrad no_grad;
  const auto memory = model->encode(drawn(4, 2, 1), {});
  CHECK_THAT(user_error_of([&] { model->advance(drawn(1, 3, 2), memory, {}); }),
             Contains("must be a multiple of the 2 of the memory, got 3"));
  const auto begun = model->advance(drawn(1, 2, 2), memory, {});
  CHECK_THAT(user_error_of([&] { model->advance(drawn(1, 4, 2), memory, begun.state); }),
             Contains("the state is not of 4 texts"));
  auto* const block = dynamic_cast<nn::TransformerBlock*>(model->find("decoder.layers.0"));
  REQUIRE(block != nullptr);
  CHECK_THAT(user_error_of([&] {
               (*block)(test::random_tensor({1, 2, 16}).to(test::test_device()));
             }),
             Contains("[cross_attention] needs a memory"));
  CHECK_FALSE(model->gives_attention());
}
