// Translators: metrics against those of single texts, searches that depend only on the text, codecs stored
// with the weights.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "autograd/modes.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "core/error.h"
#include "data/loader.h"
#include "models/encoder_decoder.h"
#include "samples/cmu_dictionary.h"
#include "tasks/translation/evaluation.h"
#include "tasks/translation/task.h"
#include "tests/support/tensors.h"
#include "tests/tasks/trial.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;
using Json = tasks::Json;

namespace {

// A task on pairs of 1 to 6 letters, each of which has a target of its own and comes back in reverse; some of
// the tested ones have two references, and "q" is in no training pair.
class Trial : public testing::TaskTrial {
 public:
  explicit Trial(const std::vector<std::string>& overrides = {}) {
    const auto letters = [](int i, int count, bool target) {
      std::string text;
      for (int k = 0; k < count; ++k) {
        const char letter = static_cast<char>((target ? 'a' : 'u') + (i * 7 + k * k + k) % 5);
        text += target && !text.empty() ? std::string(" ") + letter : std::string(1, letter);
      }
      return text;
    };
    std::string train, test;
    for (int i = 0; i < 60; ++i)
      train += letters(i, i % 6 + 1, false) + "\t" + letters(i, i % 6 + 1, true) + "\n";
    for (int i = 0; i < 10; ++i)
      test += letters(i + 3, i % 5 + 1, false) + "\t" + letters(i, i % 5 + 1, true) +
              (i % 3 == 0 ? "\ta q b\n" : "\n");
    make({{"task", "translation"},
          {"model",
           {{"name", "encoder_decoder"},
            {"embedding", 6},
            {"units", 5},
            {"encoder_layers", 2},
            {"decoder_layers", 2},
            {"init", 0.8},
            {"dropout", 0.0}}},
          {"data",
           {{"name", "text_pairs"},
            {"train", {{"table", write("train.tsv", train)}}},
            {"test", {{"table", write("test.tsv", test)}}},
            {"validation_fraction", 0.1},
            {"source_codec", "characters"},
            {"target_codec", "spaces"},
            {"max_length", 6},
            {"batch_size", 8}}},
          {"optimizer", {{"name", "sgd"}, {"lr", 0.1}}}},
         overrides);
  }

  const tasks::TranslationData& data() const {
    return static_cast<const tasks::TranslationData&>(*TaskTrial::data());
  }
  models::SequenceToSequence& model() { return model_as<models::SequenceToSequence>(); }
};

// The task's models, as changes of Trial's configuration.
std::vector<std::string> changes_for(const std::string& model) {
  if (model == "encoder_decoder") return {};
  return {R"(model={"name": "transformer", "encoder_layers": 1, "decoder_layers": 2, "width": 8, "heads": 2,
                    "inner": 12, "dropout": 0.0})"};
}

// A model without a state: every step reads the whole texts again.
class Rereading final : public models::SequenceToSequence {
 public:
  explicit Rereading(models::SequenceToSequence& model) : model_(model) {}
  Memory encode(const Tensor& source, const Tensor& lengths) override {
    return model_.encode(source, lengths);
  }
  Advanced advance(const Tensor& words, const Memory& memory, const models::State& state) override {
    const Tensor before = state.find("words");
    Advanced advanced;
    advanced.state.set("words", before.defined() ? concat({before, words}, 0) : words);
    const Tensor all = model_.advance(advanced.state.find("words"), memory, {}).hidden;
    advanced.hidden = all.rows(all.size(0) - 1, 1);
    return advanced;
  }
  Tensor scores(const Tensor& hidden) override { return model_.scores(hidden); }
  bool gives_attention() const override { return false; }

 private:
  models::SequenceToSequence& model_;
};

// -ln p of each piece of a target and of its end, from the model on this pair alone.
std::vector<double> losses_of(models::SequenceToSequence& model, std::span<const std::int32_t> source,
                              std::vector<std::int64_t> target, std::int64_t mark) {
  std::vector<std::int64_t> from(source.begin(), source.end()), read{mark};
  read.insert(read.end(), target.begin(), target.end());
  target.push_back(mark);
  const auto steps = static_cast<Index>(read.size());
  const Tensor logits =
      model(Tensor::from(from, {static_cast<Index>(from.size()), 1}), {}, Tensor::from(read, {steps, 1}));
  const auto said = log_softmax(logits).to_vector<double>();
  std::vector<double> losses;
  for (std::size_t t = 0; t < target.size(); ++t)
    losses.push_back(-said[t * said.size() / target.size() + static_cast<std::size_t>(target[t])]);
  return losses;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::vector<std::int64_t> wide(std::span<const std::int32_t> ids) { return {ids.begin(), ids.end()}; }

}  // namespace

TEST_CASE("an evaluation of translations has the figures of every text by itself", "[tasks][translation]") {
  std::vector<std::string> changes =
      changes_for(GENERATE(as<std::string>(), "encoder_decoder", "transformer"));
  changes.insert(changes.end(), {"eval.max_length=5", "eval.beam=2"});
  Trial trial(changes);
  const NoGrad no_grad;
  trial.model().eval();
  const auto evaluation = trial.task().evaluation(true);
  datasets::Loader loader(trial.task().evaluation_source("test", {}), {});
  while (const auto batch = loader.next()) evaluation->add(*batch);
  const tasks::Metrics metrics = evaluation->metrics();

  const datasets::EncodedPairs& pairs = trial.data().split("test");
  const datasets::TextCodec& codec = *trial.data().codecs().target;
  const std::int64_t mark = codec.end();
  const tasks::BeamOptions options =
      tasks::beam_options({.beam = 2, .max_length = 5}, trial.data(), trial.model());
  CHECK((options.begin == codec.begin() && options.end == mark));
  double nll = 0.0;
  Index targets = 0, cut = 0;
  std::vector<std::string> written;
  metrics::ErrorRate errors;
  for (Index i = 0; i < pairs.size(); ++i) {
    const auto source = pairs.source(i);
    nll += sum_of(losses_of(trial.model(), source, wide(pairs.target(i)), mark));
    targets += static_cast<Index>(pairs.target(i).size()) + 1;
    const auto length = static_cast<Index>(source.size());
    const auto found = tasks::search(trial.model(), Tensor::from(wide(source), {length, 1}),
                                     Tensor::from(std::vector<std::int64_t>{length}, {1}), options)[0][0];
    written.push_back(codec.decode(found.tokens));
    cut += !found.ended;
    // The pieces as texts, of which an unknown one is never written.
    std::vector<std::vector<std::string>> references;
    const auto pieces_of = [](const std::string& text) {
      std::vector<std::string> pieces;
      for (std::size_t at = 0; at < text.size(); at += 2) pieces.push_back(text.substr(at, 1));
      return pieces;
    };
    for (const std::string& reference : pairs.references[static_cast<std::size_t>(i)])
      references.push_back(pieces_of(reference));
    errors.add(metrics::nearest_edits(references, pieces_of(written.back())));
  }
  CHECK(pairs.size() == 10);
  CHECK(pairs.references[0].size() == 2);
  CHECK(tasks::metric(metrics, "loss") == Approx(nll / static_cast<double>(targets)).epsilon(1e-5));
  CHECK(tasks::metric(metrics, "perplexity") ==
        Approx(std::exp(nll / static_cast<double>(targets))).epsilon(1e-4));
  CHECK(tasks::metric(metrics, "bleu") == Approx(metrics::corpus_bleu(written, pairs.references).score));
  CHECK(tasks::metric(metrics, "piece_error_rate") == Approx(errors.rate()));
  CHECK(tasks::metric(metrics, "text_error_rate") == Approx(errors.sequence_error_rate()));
  const Json details = evaluation->details();
  CHECK(details["cut"] == cut);
  CHECK(details["pieces"]["of"] == errors.sum().reference_length);
  REQUIRE(evaluation->artifacts().size() == 1);
  const std::string lines = evaluation->artifacts()[0].contents;
  CHECK(std::ranges::count(lines, '\n') == 10);
  for (std::size_t i = 0; i < written.size(); ++i) {
    std::string line = pairs.sources[i] + "\t" + written[i];
    for (const std::string& reference : pairs.references[i]) line += "\t" + reference;
    CHECK_THAT(lines, Contains(line + "\n"));
  }
}

TEST_CASE("a search tells what the model says of each hypothesis whole", "[tasks][translation]") {
  Trial trial(changes_for(GENERATE(as<std::string>(), "encoder_decoder", "transformer")));
  const NoGrad no_grad;
  trial.model().eval();
  const tasks::BeamOptions options = [&] {
    tasks::BeamOptions made = tasks::beam_options({}, trial.data(), trial.model());
    CHECK(made.max_length == 7);
    CHECK(made.width == 5);
    made.width = 4;
    return made;
  }();
  datasets::Loader loader(trial.task().evaluation_source("test", {}), {});
  while (const auto batch = loader.next()) {
    const auto found =
        tasks::search(trial.model(), (*batch)["source"], tasks::source_lengths(*batch), options);
    REQUIRE(found.size() == static_cast<std::size_t>(batch->samples));
    const auto pairs = (*batch)["pair"].to_vector<std::int64_t>();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto source = trial.data().split("test").source(pairs[i] - trial.data().first_of("test"));
      REQUIRE(found[i].size() == 4);
      for (const tasks::BeamHypothesis& one : found[i]) {
        auto losses = losses_of(trial.model(), source, wide(one.tokens), options.end);
        if (!one.ended) losses.pop_back();
        CHECK(one.log_probability == Approx(-sum_of(losses)).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("a search with cached keys and values finds what one without finds", "[tasks][translation]") {
  Trial trial(changes_for("transformer"));
  const NoGrad no_grad;
  trial.model().eval();
  Rereading rereading(trial.model());
  const tasks::BeamOptions options = tasks::beam_options({.beam = 3}, trial.data(), trial.model());
  CHECK(options.coverage_penalty == 0.0);
  datasets::Loader loader(trial.task().evaluation_source("test", {}), {});
  while (const auto batch = loader.next()) {
    const auto [source, lengths] = std::pair((*batch)["source"], tasks::source_lengths(*batch));
    const auto cached = tasks::search(trial.model(), source, lengths, options);
    const auto whole = tasks::search(rereading, source, lengths, options);
    REQUIRE(cached.size() == whole.size());
    for (std::size_t i = 0; i < cached.size(); ++i) {
      REQUIRE(cached[i].size() == whole[i].size());
      for (std::size_t k = 0; k < cached[i].size(); ++k) {
        CHECK(cached[i][k].tokens == whole[i][k].tokens);
        CHECK(cached[i][k].score == Approx(whole[i][k].score).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("the loss of a translator is the smoothed mean over all pieces", "[tasks][translation]") {
  Trial trial({"loss.label_smoothing=0.2"});
  datasets::Loader loader(trial.task().training_source({}), {});
  const auto batch = loader.next();
  const Tensor logits =
      trial.model()((*batch)["source"], tasks::source_lengths(*batch), (*batch)["target_in"]);
  const auto said = log_softmax(logits).to_vector<double>();
  const auto target = (*batch)["target"].to_vector<std::int64_t>();
  const std::size_t pieces = said.size() / target.size();
  double sum = 0.0, count = 0.0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] < 0) continue;
    const auto row = said.begin() + static_cast<std::ptrdiff_t>(i * pieces);
    const double mean =
        std::accumulate(row, row + static_cast<std::ptrdiff_t>(pieces), 0.0) / static_cast<double>(pieces);
    sum -= 0.8 * row[target[i]] + 0.2 * mean;
    count += 1.0;
  }
  CHECK(batch->weight == count);
  CHECK(trial.task().loss(*batch, {}).item() == Approx(sum / count).epsilon(1e-5));
}

TEST_CASE("pairs to train on are their own references", "[tasks][translation]") {
  Trial trial({"data.overfit_batches=1"});
  CHECK(trial.task().validation_split() == "train");
  trial.model().eval();
  const auto evaluation = trial.task().evaluation(true);
  datasets::Loader loader(trial.task().evaluation_source("train", {}), {});
  const auto batch = loader.next();
  REQUIRE(batch->samples == 8);
  CHECK((*batch)["pair"].to_vector<std::int64_t>()[0] >= trial.data().first_of("train"));
  evaluation->add(*batch);
  Index pieces = 0;
  for (const auto length : (*batch)["target_length"].to_vector<std::int64_t>()) pieces += length - 1;
  CHECK(evaluation->details()["pieces"]["of"] == pieces);
  CHECK_FALSE(loader.next());
}

TEST_CASE("every pair comes once an epoch, by number and by pieces", "[tasks][translation]") {
  const auto samples_of = [](Trial& trial, Index batch_size = 0) {
    Index samples = 0;
    datasets::Loader loader(trial.task().training_source({}, batch_size), {});
    while (const auto batch = loader.next()) samples += batch->samples;
    return samples;
  };
  Trial trial;
  CHECK(trial.data().split("train").size() == 54);
  CHECK(trial.data().split("validation").size() == 6);
  CHECK(samples_of(trial) == 54);
  CHECK(samples_of(trial, 16) == 48);
  Trial dropped({"data.drop_last=true"});
  CHECK(samples_of(dropped) == 48);
  Trial by_pieces({"data.batch_tokens=128"});
  CHECK(samples_of(by_pieces) == 54);
  datasets::Loader loader(by_pieces.task().training_source({}), {});
  while (const auto batch = loader.next()) CHECK((*batch)["target"].numel() <= 128);
  CHECK_THAT(user_error_of([] { Trial({"data.batch_tokens=7"}).task().training_source({}); }), Contains("7"));
}

TEST_CASE("codecs are saved with the weights of a translator", "[tasks][translation]") {
  Trial trial;
  const Json description = trial.data().description();
  const auto recalled =
      std::static_pointer_cast<const tasks::TranslationData>(tasks::TranslationData::recall(description));
  CHECK(recalled->description() == description);
  CHECK_FALSE(recalled->is_open());
  CHECK(recalled->max_length() == 6);
  CHECK(recalled->codecs().source->encode("uq").unknown == 1);
  CHECK_THROWS_AS(recalled->split("train"), InternalError);
  trial.data().require_like(description, "w.safetensors");
  Json changed = description;
  changed["target_codec"]["vocabulary"][3] = "zz";
  CHECK_THAT(user_error_of([&] { trial.data().require_like(changed, "w.safetensors"); }),
             Contains("w.safetensors") && Contains("other pieces of the target"));
  changed = description;
  changed["target_codec"] = changed["source_codec"];
  changed["shared"] = true;
  CHECK_THAT(user_error_of([&] { trial.data().require_like(changed, "w.safetensors"); }),
             Contains("other pieces"));
  for (const char* key : {"name", "shared", "source_codec", "target_codec", "max_length"}) {
    INFO(key);
    Json damaged = description;
    damaged.erase(key);
    CHECK_THAT(user_error_of([&] { tasks::TranslationData::recall(damaged); }),
               Contains("is damaged") && !Contains("json.exception"));
  }
  // A search of so many steps would not end.
  Json endless = description;
  endless["max_length"] = std::int64_t{1} << 40;
  CHECK_THAT(user_error_of([&] { tasks::TranslationData::recall(endless); }),
             Contains("the maximum is 1048576"));
}

TEST_CASE("one codec for both sides makes one table, and is one codec when recalled",
          "[tasks][translation]") {
  Trial trial({R"(data.codec="characters")", "data.source_codec=null", "data.target_codec=null"});
  const auto shared = [](Trial& of) { return of.model_as<models::EncoderDecoder>().options().shared; };
  CHECK(shared(trial));
  CHECK(trial.data().codecs().shared());
  const auto recalled = std::static_pointer_cast<const tasks::TranslationData>(
      tasks::TranslationData::recall(trial.data().description()));
  CHECK(recalled->codecs().shared());
  Trial apart({R"(data.codec="characters")", "data.source_codec=null", "data.target_codec=null",
               "model.shared=false"});
  CHECK_FALSE(shared(apart));
  CHECK_THAT(user_error_of([] { Trial wrong({"model.shared=true"}); }), Contains("shared"));
}

TEST_CASE("the pronunciations of a dictionary are described without it", "[tasks][translation]") {
  tasks::TranslationOptions given;
  given.data.pairs.set = options::Choice<datasets::pair_corpora>("cmu_dictionary", {{"path", "nowhere"}});
  const auto data =
      std::static_pointer_cast<const tasks::TranslationData>(tasks::TranslationData::describe(given));
  CHECK(data->codecs().source->size() == datasets::kCmuCharacters);
  CHECK(data->codecs().target->size() == datasets::kCmuPhonemes);
  CHECK_THROWS_AS(data->split("train"), InternalError);
}

TEST_CASE("synthetic batches of a translator have its fields", "[tasks][translation]") {
  Trial trial;
  const datasets::Batch batch = trial.task().synthetic_batch(3, 5, {});
  CHECK(batch["source"].shape() == Shape{8, 3});
  CHECK(batch["target"].shape() == Shape{8, 3});
  CHECK(batch.weight == 24.0);
  CHECK(std::isfinite(trial.task().loss(batch, {}).item()));
}

TEST_CASE("a translator wants a model of its kind", "[tasks][translation]") {
  CHECK_THAT(user_error_of([] { Trial trial({R"(model={"name": "mlp"})"}); }), Contains("encoder_decoder"));
  CHECK_THAT(user_error_of([] { Trial trial({"model.target_words=3"}); }), Contains("target"));
  CHECK_THAT(user_error_of([] { Trial trial({"eval.beam=0"}); }), Contains("eval.beam"));
  CHECK(tasks::beam_options({}, Trial().data(), Trial().model()).coverage_penalty == 0.1);
  CHECK_THAT(user_error_of([] {
               std::vector<std::string> changes = changes_for("transformer");
               changes.emplace_back("eval.coverage_penalty=0.1");
               Trial trial(changes);
             }),
             Contains("eval.coverage_penalty") && Contains("set it to 0"));
}

namespace {

// Whatever the source, five pieces of a target that is always the same but for its case.
class Shouting : public testing::TaskTrial {
 public:
  Shouting() {
    std::string lines;
    for (int i = 0; i < 20; ++i) lines += fmt::format("s{}\tYes YES yes Yes \u00C4H\n", i);
    make({{"task", "translation"},
          {"model",
           {{"name", "encoder_decoder"},
            {"embedding", 4},
            {"units", 4},
            {"encoder_layers", 2},
            {"decoder_layers", 2}}},
          {"data",
           {{"name", "text_pairs"},
            {"train", {{"table", write("train.tsv", lines)}}},
            {"test_fraction", 0.2},
            {"source_codec", "spaces"},
            {"target_codec", "words"}}},
          {"eval", {{"max_length", 5}}},
          {"optimizer", {{"name", "sgd"}, {"lr", 0.1}}}},
         {});
  }
};

}  // namespace

TEST_CASE("BLEU is in lower case where the target's codec is, and says so", "[tasks][translation]") {
  Shouting trial;
  const auto& data = static_cast<const tasks::TranslationData&>(*trial.data());
  const datasets::TextCodec& codec = *data.codecs().target;
  CHECK(codec.drops_case());
  REQUIRE(trial.task().notes_of_data().size() == 1);
  CHECK_THAT(trial.task().notes_of_data()[0], Contains("BLEU compares in lower case"));
  const std::string right = codec.decode(data.split("test").target(0));
  CHECK(right == "yes yes yes yes \u00E4h");
  for (const Parameter& parameter : trial.model_as<models::EncoderDecoder>().parameters())
    if (parameter.name() == "decoder.classifier.classifier.bias")
      parameter.value().data<float>()[codec.encode("yes").ids[0]] = 100.0F;
  const auto evaluated = trial.task().evaluation(true);
  datasets::Loader loader(trial.task().evaluation_source("test", {}), {});
  while (const auto batch = loader.next()) evaluated->add(*batch);
  const std::vector<std::string> written(4, "yes yes yes yes yes");
  const std::vector<std::vector<std::string>> lower(4, {right});
  CHECK(tasks::metric(evaluated->metrics(), "bleu") == Approx(metrics::corpus_bleu(written, lower).score));
  CHECK(tasks::metric(evaluated->metrics(), "bleu") > 50.0);
  CHECK_THAT(evaluated->details()["bleu"]["signature"].get<std::string>(), Contains("|case:lc|"));
  CHECK(Trial().task().notes_of_data().empty());
}
