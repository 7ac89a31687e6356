// Distributed evaluations of each family: batches computed by several processes and accumulated in order give
// the bits of one process.
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "core/error.h"
#include "core/random.h"
#include "data/loader.h"
#include "files/safetensors.h"
#include "models/dcgan.h"
#include "tasks/gan/evaluation.h"
#include "tasks/sample_data.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"
#include "tests/tasks/trial.h"

using namespace tandem;
using nlohmann::json;
using tasks::Record;

namespace {

using Evaluations = std::function<std::unique_ptr<tasks::Evaluation>()>;

// The batches of a split, and a model to evaluate on them.
struct Pass {
  std::vector<datasets::Batch> batches;
  Evaluations evaluation;
  nn::Module* model = nullptr;
  std::shared_ptr<void> owner{};
};

class Trial : public testing::TaskTrial {
 public:
  // Of `files`, contents by the keys that name them.
  Trial(json config, const std::map<std::string, std::string>& files) {
    for (const auto& [key, contents] : files) config["data"][key] = write(key + ".txt", contents);
    config["optimizer"] = {{"name", "sgd"}, {"lr", 0.1}};
    make(config, {});
  }
};

Pass pass_of(const json& config, const std::map<std::string, std::string>& files = {}) {
  const auto trial = std::make_shared<Trial>(config, files);
  tasks::Task& task = trial->task();
  Pass pass{.batches = {},
            .evaluation = [&task] { return task.evaluation(true); },
            .model = &task.model(),
            .owner = trial};
  datasets::Loader loader(task.evaluation_source("test", {}));
  while (const auto batch = loader.next()) pass.batches.push_back(*batch);
  return pass;
}

Pass classification() {
  return pass_of({{"model", {{"name", "mlp"}, {"hidden", {9}}}},
                  {"data", {{"name", "digits"}, {"test_size", 33}, {"eval_batch_size", 5}}},
                  {"loss", {{"name", "cross_entropy"}, {"class_weights", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}}}});
}

Pass segmentation() {
  return pass_of({{"task", "segmentation"},
                  {"model", {{"name", "unet"}, {"width", 4}, {"levels", 2}}},
                  {"data",
                   {{"name", "scenes"},
                    {"items", "digits"},
                    {"image_size", 32},
                    {"train_size", 4},
                    {"test_size", 11},
                    {"eval_batch_size", 3}}},
                  {"eval", {{"examples", 4}}}});
}

Pass detection() {
  return pass_of({{"task", "detection"},
                  {"model", {{"name", "ssd_small"}, {"width", 4}}},
                  {"data",
                   {{"name", "scenes"},
                    {"items", "digits"},
                    {"scene_size", 64},
                    {"most_items", 2},
                    {"train_size", 4},
                    {"test_size", 11},
                    {"eval_batch_size", 3}}},
                  {"eval", {{"examples", 4}, {"shown", 0.1}}}});
}

// Judged by the classifier that comes with Tandem; not all images have one made beside them.
Pass gan() {
  const RandomScope random(1, 0, 0);
  const auto model = std::make_shared<models::Dcgan>(models::DcganOptions{.image_size = 32, .width = 2});
  for (const Parameter& p : model->generator().parameters())  // images that differ
    if (p.value().rank() == 4)
      for (Index i = 0; i < p.value().numel(); ++i) p.value().data<float>()[i] *= 50.0F;
  const std::string path = test::source_path("data/classifiers/fashion_mnist.safetensors");
  const safetensors::File file(path);
  const auto data = tasks::SampleData::recall(tasks::Json::parse(file.metadata().at("tandem.data")));
  const auto classifier = tasks::Classifier::of(path, {.info = data->info()});
  Pass pass{.batches = {},
            .evaluation = [=] { return std::make_unique<tasks::GanEvaluation>(*model, classifier, 75, 2); },
            .model = model.get()};
  Index first = 0;
  for (const Index samples : {30, 30, 7, 20, 9}) {
    const auto seed = static_cast<std::uint64_t>(first);
    pass.batches.emplace_back(
        std::vector<datasets::Field>{{"image", test::random_tensor({samples, 32, 32, 1}, DType::f32, seed)}},
        samples);
    pass.batches.back().first = first;
    first += samples;
  }
  return pass;
}

std::string words(int count, int per_line) {
  std::string text;
  RandomStream random({.seed = 4, .purpose = RandomPurpose::synthetic_data});
  for (int i = 0; i < count; ++i)
    text += fmt::format("w{}{}", random.below(12), i % per_line == per_line - 1 ? "\n" : " ");
  return text;
}

Pass language() {
  return pass_of(
      {{"task", "language"},
       {"model",
        {{"name", "language_model"}, {"embedding", 6}, {"units", 8}, {"dropout", 0.0}, {"init", 0.5}}},
       {"data", {{"name", "text"}, {"batch_size", 3}, {"eval_batch_size", 2}, {"steps", 5}}}},
      {{"train", words(900, 9)}, {"test", words(77, 9)}});
}

Pass masked_language() {
  return pass_of({{"task", "masked_language"},
                  {"model",
                   {{"name", "bert"},
                    {"num_layers", 1},
                    {"width", 8},
                    {"heads", 2},
                    {"context", 16},
                    {"next_sentence", true}}},
                  {"data",
                   {{"name", "text"},
                    {"validation_fraction", 0.0},
                    {"codec", {{"name", "wordpiece"}, {"size", 40}}},
                    {"batch_size", 8}}}},
                 {{"train", words(200, 6)}, {"test", words(240, 6)}});
}

Pass question_answering() {
  json paragraphs = json::array();
  for (int i = 0; i < 12; ++i) {
    const std::string context = words(9 + i, 6), id = std::to_string(i);
    paragraphs.push_back({{"context", context},
                          {"qas",
                           {{{"id", id},
                             {"question", "w" + id},
                             {"is_impossible", i % 4 == 0},
                             {"answers", {{{"text", context.substr(0, 2)}, {"answer_start", 0}}}}}}}});
  }
  const std::string file = json{{"data", {{{"paragraphs", paragraphs}}}}}.dump();
  return pass_of(
      {{"task", "question_answering"},
       {"model", {{"name", "bert"}, {"num_layers", 1}, {"width", 8}, {"heads", 2}, {"context", 16}}},
       {"data",
        {{"name", "squad"},
         {"codec", {{"name", "wordpiece"}, {"size", 40}}},
         {"max_question", 4},
         {"stride", 5},
         {"batch_size", 4}}},
       {"eval", {{"predictions", true}}}},
      {{"train", file}, {"test", file}});
}

Pass text_classification() {
  std::string lines;
  for (int i = 0; i < 50; ++i) {
    lines += i % 3 == 0 ? "zero\t" : i % 3 == 1 ? "one\t" : "two\t";
    for (int w = 0; w <= i % 9; ++w) lines += fmt::format("w{} ", (i * 7 + w * w) % 13);
    lines += "\n";
  }
  return pass_of(
      {{"task", "text_classification"},
       {"model",
        {{"name", "text_classifier"}, {"embedding", 6}, {"units", 5}, {"init", 1.0}, {"dropout", 0.0}}},
       {"data", {{"name", "labelled_lines"}, {"max_words", 7}, {"batch_size", 8}}}},
      {{"train", lines}, {"test", lines}});
}

Pass translation() {
  std::string pairs;
  for (int i = 0; i < 40; ++i) {
    std::string source, target;
    for (int k = 0; k <= i % 5; ++k) {
      source += static_cast<char>('u' + (i * 7 + k * k) % 5);
      target += fmt::format("{}{}", k > 0 ? " " : "", static_cast<char>('a' + (i * 7 + k * k) % 5));
    }
    pairs += source + "\t" + target + (i % 3 == 0 ? "\ta b\n" : "\n");
  }
  const testing::TemporaryDirectory directory;
  const std::string path = directory.write("pairs.tsv", pairs);
  return pass_of({{"task", "translation"},
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
                    {"train", {{"table", path}}},
                    {"test", {{"table", path}}},
                    {"source_codec", "characters"},
                    {"target_codec", "spaces"},
                    {"max_length", 6},
                    {"batch_size", 8}}},
                  {"eval", {{"beam", 2}, {"max_length", 5}}}});
}

struct Family {
  const char* name;
  Pass (*pass)();
  std::vector<std::string> files;  // that its evaluations leave
  bool shows_first = false;        // pictures of the first samples, and of no others
};

std::vector<Family> families() {
  return {{"classification", classification, {"confusion.csv"}},
          {"segmentation", segmentation, {"pictures/examples.png", "confusion.csv"}, true},
          {"detection", detection, {"pictures/examples.png", "detections.json"}, true},
          {"gan", gan, {"pictures/samples.png"}, true},
          {"language", language, {}},
          {"masked_language", masked_language, {}},
          {"question_answering", question_answering, {"predictions.json"}},
          {"text_classification", text_classification, {"confusion.csv"}},
          {"translation", translation, {"translations.tsv"}}};
}

// All that an evaluation says, to the bit.
struct Said {
  std::string figures;
  std::vector<std::string> files, contents;
};

Said said_by(const tasks::Evaluation& evaluation) {
  Said said;
  for (const auto& [name, value] : evaluation.metrics())
    said.figures += fmt::format("{} {:a}\n", name, value);
  said.figures += evaluation.details().dump() + "\n";
  if (const auto breakdown = evaluation.breakdown()) said.figures += tasks::to_json(*breakdown).dump();
  for (const tasks::Artifact& artifact : evaluation.artifacts()) {
    said.files.push_back(artifact.file);
    said.contents.push_back(artifact.contents);
  }
  return said;
}

struct Shared {
  std::vector<Record> records;                             // by batch
  std::vector<std::unique_ptr<tasks::Evaluation>> shares;  // of the processes that measured
};

Shared measured_by(std::size_t processes, const Pass& pass) {
  Shared shared;
  shared.records.resize(pass.batches.size());
  for (std::size_t rank = 0; rank < processes; ++rank) {
    auto& share = *shared.shares.emplace_back(pass.evaluation());
    for (std::size_t k = 0; k < pass.batches.size(); ++k) {
      if (k % processes == rank) {
        shared.records[k] = share.forward(pass.batches[k]);
      } else if (share.carries()) {
        share.skip(pass.batches[k]);
      }
    }
  }
  return shared;
}

// Whatever the model is asked from here on, it says nothing of use.
void spoil(nn::Module& model) {
  for (const Parameter& parameter : model.parameters())
    std::fill_n(parameter.value().data<float>(), parameter.value().numel(),
                std::numeric_limits<float>::quiet_NaN());
}

}  // namespace

TEST_CASE("a pass that processes share says to the bit what one process says", "[tasks][shared]") {
  for (const Family& family : families()) {
    INFO(family.name);
    const NoGrad no_grad;
    const Pass pass = family.pass();
    pass.model->eval();
    REQUIRE(pass.batches.size() > 3);
    const auto whole = pass.evaluation();
    for (const datasets::Batch& batch : pass.batches) whole->add(batch);
    std::vector<Shared> all;
    for (const std::size_t processes : {1, 2, 3}) all.push_back(measured_by(processes, pass));
    spoil(*pass.model);
    const Said expected = said_by(*whole);
    CHECK(expected.files.size() >= family.files.size());
    for (const std::string& file : family.files) CHECK(std::ranges::count(expected.files, file) == 1);
    for (const Shared& shared : all) {
      if (family.shows_first) CHECK(shared.records.back().size() < shared.records.front().size() / 2);
      // One that measured nothing, and the first of those that did.
      const auto fresh = pass.evaluation();
      for (tasks::Evaluation* const taker : {fresh.get(), shared.shares.front().get()}) {
        for (const Record& record : shared.records) taker->accumulate(record);
        const Said said = said_by(*taker);
        CHECK(said.figures == expected.figures);
        CHECK(said.files == expected.files);
        CHECK((said.contents == expected.contents));
      }
    }
  }
}

TEST_CASE("a record of a stream's batch is of the state that it is met with", "[tasks][shared]") {
  const NoGrad no_grad;
  const Pass pass = language();
  pass.model->eval();
  const auto measuring = pass.evaluation(), passing = pass.evaluation(), anew = pass.evaluation();
  CHECK(measuring->carries());
  for (std::size_t k = 0; k < 2; ++k) {
    measuring->forward(pass.batches[k]);
    passing->skip(pass.batches[k]);
  }
  const Record record = measuring->forward(pass.batches[2]);
  CHECK((passing->forward(pass.batches[2]) == record));
  CHECK_FALSE((anew->forward(pass.batches[2]) == record));
}

TEST_CASE("a record of a batch that is not whole is an internal error", "[tasks][shared]") {
  for (const Family& family : families()) {
    INFO(family.name);
    const NoGrad no_grad;
    const Pass pass = family.pass();
    pass.model->eval();
    Record record = pass.evaluation()->forward(pass.batches.front());
    REQUIRE(record.size() > 8);
    constexpr std::size_t kCuts = 40;
    for (std::size_t cut = 0; cut < kCuts; ++cut)
      CHECK_THROWS_AS(pass.evaluation()->accumulate(std::span(record).first(record.size() * cut / kCuts)),
                      InternalError);
    CHECK_THROWS_AS(pass.evaluation()->accumulate(std::span(record).first(record.size() - 1)), InternalError);
    pass.evaluation()->accumulate(record);
    record.push_back({});
    CHECK_THROWS_AS(pass.evaluation()->accumulate(record), InternalError);
  }
}
