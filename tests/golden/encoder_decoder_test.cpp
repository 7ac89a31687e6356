// Encoder–decoders against PyTorch in FP64: scores, attention, the loss with label smoothing and each
// gradient (tests/golden/encoder_decoder.py makes the values; weights and words come from the same hash
// here). Decoding word by word against the whole sequence.
#include "models/encoder_decoder.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "files/safetensors.h"
#include "models/weights.h"
#include "tests/golden/hashed.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_files.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;

namespace {

using models::AttentionKind;
using models::EncoderDecoder;
using models::EncoderDecoderOptions;
using nlohmann::json;
using Lengths = std::vector<std::int64_t>;

constexpr double kTolerance = 3e-6;
// Gradients behind the attention's softmax are differences that cancel: what a query's weights get is a
// tenth of its terms, and less.
constexpr double kGradientTolerance = 3e-5;
constexpr double kSmoothing = 0.1;
constexpr std::int64_t kNoTarget = -1;

AttentionKind kind_named(const std::string& name) {
  if (name == "bahdanau_normalised") return AttentionKind::bahdanau_normalised;
  if (name == "bahdanau") return AttentionKind::bahdanau;
  return name == "luong_general" ? AttentionKind::luong_general : AttentionKind::luong_dot;
}

// A case of the script, and what the file has of it.
struct Case {
  std::string name;
  json what;
  const safetensors::File& golden;

  EncoderDecoderOptions options() const {
    return {.source_words = what["words"][0],
            .target_words = what["words"][1],
            .embedding = what["embedding"],
            .units = what["units"],
            .encoder_layers = what["layers"][0],
            .decoder_layers = what["layers"][1],
            .attention = kind_named(what["attention"]),
            .dropout = 0.0,
            .shared = what.value("shared", false),
            .tied = what.value("tied", false)};
  }
  Index rows() const { return static_cast<Index>(what["source"].size()); }
  Index longest(const char* side) const {
    const auto lengths = what[side].get<Lengths>();
    return *std::max_element(lengths.begin(), lengths.end());
  }
  Tensor lengths() const { return Tensor::from(what["source"].get<Lengths>(), {rows()}); }
  Tensor words(const char* which, Index steps, int side) const {
    std::vector<std::int64_t> ids;
    for (const std::uint32_t word : hashed(name + "." + which, steps * rows()))
      ids.push_back(word % what["words"][static_cast<std::size_t>(side)].get<std::uint32_t>());
    return Tensor::from(ids, {steps, rows()}, test::test_device());
  }
  Tensor source() const { return words("source", longest("source"), 0); }
  Tensor read() const { return words("target_in", longest("target"), 1); }
  // With kNoTarget behind the end of each row.
  Tensor target() const {
    auto ids = words("target", longest("target"), 1).to_vector<std::int64_t>();
    const auto written = what["target"].get<Lengths>();
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (static_cast<std::int64_t>(i / written.size()) >= written[i % written.size()]) ids[i] = kNoTarget;
    return Tensor::from(ids, {longest("target"), rows()}, test::test_device());
  }
  std::vector<double> expected(const std::string& key) const {
    return golden.read(name + "." + key).to_vector<double>();
  }
  std::shared_ptr<EncoderDecoder> model() const {
    const auto made = std::make_shared<EncoderDecoder>(options());
    for (const Parameter& parameter : made->parameters()) {
      const Tensor drawn = signed_unit(name + "." + parameter.name(), parameter.value().shape());
      float* values = drawn.data<float>();
      for (Index i = 0; i < drawn.numel(); ++i) values[i] *= 0.75f;
      backend_for(Device{}).copy_bytes(drawn, parameter.value());
      parameter.value().storage()->bump_version();
    }
    made->to(test::test_device());
    return made;
  }
};

template <class Body>
void each_case(Body&& body) {
  const safetensors::File golden(test::source_path("tests/golden/encoder_decoder.safetensors"));
  const json cases = json::parse(golden.metadata().at("cases"));
  const json names = json::parse(golden.metadata().at("parameters"));
  for (const auto& [name, what] : cases.items()) {
    INFO(name);
    const Case one{name, what, golden};
    body(one, names[name].template get<std::vector<std::string>>());
  }
}

double error(const Tensor& got, const std::vector<double>& expected) {
  return test::normalised_error(got.to_vector<double>(), expected);
}

struct Step {
  Tensor log_probabilities, attention;  // f32 [R,V] and [R,S]
  models::State state;
};

// A word of each row, tokens [R].
Step step_of(EncoderDecoder& model, const Tensor& tokens, const EncoderDecoder::Memory& memory,
             const models::State& state) {
  const Index rows = tokens.numel();
  const auto of_rows = [&](const Tensor& x) { return cast(reshape(x, {rows, x.size(-1)}), DType::f32); };
  const auto next = model.advance(reshape(tokens, {1, rows}), memory, state);
  return {log_softmax(of_rows(model.scores(next.hidden))), of_rows(next.attention), next.state};
}

// Row `i` of each sentence's `width` hypotheses: [1,N] → [N·width].
Tensor repeated(const Tensor& words, Index width) {
  std::vector<std::int64_t> ids;
  for (const std::int64_t id : words.to_vector<std::int64_t>())
    ids.insert(ids.end(), static_cast<std::size_t>(width), id);
  return Tensor::from(ids, {static_cast<Index>(ids.size())}, test::test_device());
}

}  // namespace

TEST_CASE("encoder-decoders agree with PyTorch", "[encoder_decoder]") {
  each_case([](const Case& one, std::vector<std::string> names) {
    const auto model = one.model();
    std::vector<std::string> own;
    for (const Parameter& parameter : model->parameters()) own.push_back(parameter.name());
    std::sort(own.begin(), own.end());
    std::sort(names.begin(), names.end());
    CHECK(own == names);
    const Tensor logits = (*model)(one.source(), one.lengths(), one.read());
    CHECK(error(logits, one.expected("logits")) < kTolerance);
    const Tensor loss =
        cross_entropy(logits, one.target(), {.label_smoothing = kSmoothing, .ignore_index = kNoTarget});
    CHECK(loss.item() == Approx(one.expected("loss")[0]).epsilon(kTolerance));
    backward(loss);
    for (const Parameter& parameter : model->parameters()) {
      INFO(parameter.name());
      REQUIRE(parameter.gradient().defined());
      CHECK(error(parameter.gradient(), one.expected("gradient." + parameter.name())) < kGradientTolerance);
    }
  });
}

TEST_CASE("an encoder-decoder writes word by word what it says of all words at once", "[encoder_decoder]") {
  const NoGrad no_grad;
  each_case([](const Case& one, const std::vector<std::string>&) {
    const auto model = one.model();
    const Tensor read = one.read();
    const Tensor whole = log_softmax((*model)(one.source(), one.lengths(), read));
    const auto attention = one.expected("attention");
    const EncoderDecoder::Memory memory = model->encode(one.source(), one.lengths());
    for (const Index width : {1, 3}) {
      models::State state;
      for (Index t = 0; t < read.size(0); ++t) {
        const Step step = step_of(*model, repeated(read.rows(t, 1), width), memory, state);
        state = step.state;
        REQUIRE(step.log_probabilities.shape() == Shape{one.rows() * width, whole.size(2)});
        const Index per_row = step.attention.size(1);
        const auto got = step.log_probabilities.to_vector<double>(),
                   seen = step.attention.to_vector<double>();
        const auto expected = whole.rows(t, 1).to_vector<double>();
        const auto classes = static_cast<std::size_t>(whole.size(2)),
                   places = static_cast<std::size_t>(per_row);
        double worst = 0.0;
        for (std::size_t row = 0; row < static_cast<std::size_t>(one.rows() * width); ++row) {
          const std::size_t sentence = row / static_cast<std::size_t>(width);
          for (std::size_t i = 0; i < classes; ++i)
            worst = std::max(worst, std::abs(got[row * classes + i] - expected[sentence * classes + i]));
          const std::size_t first = (static_cast<std::size_t>(t * one.rows()) + sentence) * places;
          for (std::size_t i = 0; i < places; ++i)
            worst = std::max(worst, std::abs(seen[row * places + i] - attention[first + i]));
        }
        CHECK(worst < 1e-5);
      }
    }
  });
}

TEST_CASE("hypotheses of a decoder are chosen by their rows", "[encoder_decoder]") {
  const NoGrad no_grad;
  each_case([](const Case& one, const std::vector<std::string>&) {
    const auto model = one.model();
    const EncoderDecoder::Memory memory = model->encode(one.source(), one.lengths());
    // Two hypotheses of each sentence that differ; then both go on from the second one.
    const Index rows = 2 * one.rows();
    std::vector<std::int64_t> first, second, parents;
    for (Index row = 0; row < rows; ++row) {
      first.push_back(row % 2 + 1);
      second.push_back(row % 2);
      parents.push_back(row | 1);
    }
    const auto of = [&](const std::vector<std::int64_t>& ids) {
      return Tensor::from(ids, {rows}, test::test_device());
    };
    const auto begun = step_of(*model, of(first), memory, {});
    const auto chosen = step_of(*model, of(second), memory, begun.state.select(of(parents)));
    // The same without a choice.
    const auto again =
        step_of(*model, of(std::vector<std::int64_t>(static_cast<std::size_t>(rows), 2)), memory, {});
    const auto straight = step_of(*model, of(second), memory, again.state);
    CHECK(error(chosen.log_probabilities, straight.log_probabilities.to_vector<double>()) < 1e-6);
    const auto unchosen = step_of(*model, of(second), memory, begun.state);
    CHECK(error(unchosen.log_probabilities, straight.log_probabilities.to_vector<double>()) > 1e-6);
  });
}

TEST_CASE("errors of an encoder-decoder name the misfit", "[encoder_decoder]") {
  const auto message = [](EncoderDecoderOptions options) {
    return testing::user_error_of([&] { EncoderDecoder model(options); });
  };
  const EncoderDecoderOptions small{.source_words = 5,
                                    .target_words = 6,
                                    .embedding = 3,
                                    .units = 4,
                                    .encoder_layers = 2,
                                    .decoder_layers = 2};
  EncoderDecoderOptions options = small;
  options.shared = true;
  CHECK_THAT(message(options), Catch::Contains("5 words of the source and 6 of the target"));
  options = small;
  options.decoder_layers = 1;
  CHECK_THAT(message(options), Catch::Contains("at least 2 layers") && Catch::Contains("got 1"));
  options = small;
  options.tied = true;
  CHECK_THAT(message(options), Catch::Contains("units (4)") && Catch::Contains("(3)"));
  options = small;
  options.encoder_layers = 1;
  options.attention = AttentionKind::luong_dot;
  CHECK_THAT(message(options), Catch::Contains("got 4 and 8") && Catch::Contains("luong_general"));
  options = small;
  options.source_words = 0;
  CHECK_THAT(message(options), Catch::Contains("got 0 and 6"));
  EncoderDecoder model(small);
  const NoGrad no_grad;
  const Tensor words = Tensor::from(std::vector<std::int64_t>{1, 2, 3, 4, 1, 2}, {3, 2});
  const EncoderDecoder::Memory memory = model.encode(words, {});
  const Tensor three = Tensor::from(std::vector<std::int64_t>{1, 2, 3}, {3});
  CHECK_THAT(testing::user_error_of([&] { step_of(model, three, memory, {}); }),
             Catch::Contains("3 rows of 1 steps") && Catch::Contains("2 sentences"));
}
