// Models from outside the tree, one of each interface (tests/tiny/models.h), in tasks that do not know them:
// training, resuming, evaluation, prediction, and comparison.
#include <fmt/core.h>

#include <fstream>

#include "core/random.h"
#include "data/boxes/box_registry.h"
#include "data/boxes/image_maker.h"
#include "data/png_write.h"
#include "tests/program/project.h"

using namespace tandem::testing;
using Catch::Contains;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

class Own : public Project {
 public:
  explicit Own(Json config)
      : Project(common(std::move(config)), Json::object(), tandem::test::tiny_program_path()) {}
  void write(const std::string& name, const std::string& contents) const {
    std::ofstream(*this / name, std::ios::binary) << contents;
  }
  // "whole" is a run of two epochs.
  void check(const std::vector<std::string>& predict) const {
    must({"validate", "config.json"});
    must({"summary", "config.json"});
    check_goes_on("", {}, 3);
    must({"eval", "whole"});
    must(predict);
    must({"compare", "config.json", "compare.seeds=2", "epochs=1", "--no-speed", "--out", "compared"});
    for (const Json& step : events("whole", "step")) CHECK(step["applied"].get<int>() > 0);
  }

 private:
  static Json common(Json config) {
    config.merge_patch({{"epochs", 2}, {"threads", 1}, {"tensorboard", false}});
    if (!config.contains("optimizers")) config["optimizer"] = {{"name", "adam"}, {"lr", 0.01}};
    return config;
  }
};

// Lines of words of which the second follows from the first; with `label`, a class and a tabulator in front.
std::string lines(int count, std::uint32_t seed, bool label, bool pairs) {
  tandem::RandomStream random({.seed = seed, .purpose = tandem::RandomPurpose::synthetic_data});
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t word = random.below(3);
    if (label) text += fmt::format("class{}\t", word);
    text += fmt::format("a{} b{}{}c{}\n", word, word, pairs ? '\t' : ' ', random.below(2));
  }
  return text;
}

}  // namespace

TEST_CASE("a decoder with a growing cache trains and writes as a language model", "[program][own]") {
  const Own own({{"task", "language"},
                 {"model", "tiny_causal"},
                 {"data",
                  {{"name", "text"},
                   {"train", "train.txt"},
                   {"test", "test.txt"},
                   {"batch_size", 4},
                   {"steps", 6},
                   {"eval_batch_size", 2}}}});
  own.write("train.txt", lines(100, 1, false, false));
  own.write("test.txt", lines(30, 2, false, false));
  own.check({"predict", "whole", "--prompt", "a1", "--count", "8"});
  // Its pieces of a text have no past: nothing is carried, so nothing of a state is saved.
  CHECK(saved(own / "whole", "state").find("carry.") == std::string::npos);
}

TEST_CASE("an encoder-decoder without recurrence trains and is searched with", "[program][own]") {
  const Own own({{"task", "translation"},
                 {"model", "tiny_translator"},
                 {"data",
                  {{"name", "text_pairs"},
                   {"train", {{"table", "train.tsv"}}},
                   {"validation", {{"table", "test.tsv"}}},
                   {"test", {{"table", "test.tsv"}}},
                   {"source_codec", "spaces"},
                   {"target_codec", "spaces"},
                   {"max_length", 6},
                   {"batch_size", 16}}}});
  own.write("train.tsv", lines(120, 1, false, true));
  own.write("test.tsv", lines(20, 2, false, true));
  own.check({"predict", "whole", "a1 b1", "--top", "3"});
}

TEST_CASE("a bag of words trains as a classifier of texts", "[program][own]") {
  const Own own({{"task", "text_classification"},
                 {"model", "tiny_bag"},
                 {"data",
                  {{"name", "labelled_lines"},
                   {"train", "train.tsv"},
                   {"validation", "test.tsv"},
                   {"test", "test.tsv"},
                   {"batch_size", 16}}}});
  own.write("train.tsv", lines(120, 1, true, false));
  own.write("test.tsv", lines(20, 2, true, false));
  own.check({"predict", "whole", "a1 b1"});
  CHECK_THAT(own.refused_to_train({"model=tiny_causal"}),
             Contains("tiny_causal is no text classifier; use text_classifier, bert, tiny_bag"));
}

TEST_CASE("a detector of two stages trains and draws its boxes", "[program][own]") {
  const Own own({{"task", "detection"},
                 {"model", "tiny_detector"},
                 {"data",
                  {{"name", "scenes"},
                   {"items", "digits"},
                   {"scene_size", 32},
                   {"most_items", 2},
                   {"train_size", 24},
                   {"test_size", 6},
                   {"batch_size", 4},
                   {"eval_batch_size", 4}}}});
  const auto splits =
      tandem::datasets::open_box_set("scenes", {.train_size = 1, .test_size = 1},
                                     {{"items", "digits"}, {"scene_size", 32}, {"most_items", 2}});
  own.write("scene.png", tandem::datasets::png_of(splits.test.maker->image(splits.test.images.front().id)));
  own.check({"predict", "whole", "scene.png", "--threshold", "0.1"});
  CHECK_THAT(own.refused({"export", "whole", "--format", "onnx"}),
             Contains("do not come from a graph of ops"));
}

TEST_CASE("a pair of linear layers trains as a GAN", "[program][own]") {
  const Json adam = {{"name", "adam"}, {"lr", 0.01}}, resize = {{"name", "resize"}, {"size", 16}};
  const Own own(
      {{"task", "gan"},
       {"model", "tiny_gan"},
       {"data",
        {{"name", "digits"}, {"batch_size", 32}, {"train_size", 128}, {"augment", Json::array({resize})}}},
       {"eval", {{"features", "lenet"}, {"samples", 70}}},
       {"optimizers", {{"discriminator", adam}, {"generator", adam}}}});
  own.must({"train", "digits_lenet", "epochs=1", "run_dir=lenet", "-q"});
  own.check({"predict", "whole", "--count", "4", "--out", "grid.png"});
}
