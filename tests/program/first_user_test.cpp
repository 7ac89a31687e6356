// Messages to new users: typical mistakes of a first hour.
#include "core/tensor.h"
#include "data/npy.h"
#include "tests/data/files.h"
#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;
using nlohmann::json;
using tandem::Shape;
using tandem::Tensor;

namespace {

constexpr const char* kArrays = R"({
  "run_dir": "run", "epochs": 2, "model": {"name": "mlp", "hidden": [8]},
  "data": {"name": "npy", "path": "arrays.npz", "batch_size": 16}, "optimizer": {"name": "sgd", "lr": 0.05}})";
constexpr const char* kPictures = R"({
  "run_dir": "run", "epochs": 1, "model": {"name": "mlp", "hidden": [8]},
  "data": {"name": "image_folder", "path": "pictures", "image_size": 8, "batch_size": 2},
  "optimizer": {"name": "sgd", "lr": 0.01}})";

// 60 samples of `classes` classes, which features and pixels tell apart.
void write_arrays(const TemporaryDirectory& directory, const Shape& sample, std::int64_t classes) {
  std::vector<float> values;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 60; ++i) {
    labels.push_back(i % classes);
    for (tandem::Index j = 0; j < sample.numel(); ++j)
      values.push_back(static_cast<float>(j % classes == i % classes ? 1 : 0) +
                       0.01F * static_cast<float>(i));
  }
  directory.write("arrays.npz",
                  tandem::datasets::npz_file({{"x_train", Tensor::from(values, sample.inserted(0, 60))},
                                              {"y_train", Tensor::from(labels, {60})}}));
}

void write_pictures(const TemporaryDirectory& directory) {
  namespace files = tandem::datasets::testing;
  for (const char* split : {"train", "test"})
    for (int kind = 0; kind < 2; ++kind)
      for (int i = 0; i < 4; ++i)
        files::write_file(
            directory.path() / "pictures" / split / (kind == 0 ? "cat" : "dog") /
                (std::to_string(i) + ".png"),
            files::png_bytes({.width = 9, .height = 12, .color_type = 0},
                             files::Bytes(9 * 12, static_cast<std::uint8_t>(40 + 100 * kind + i))));
}

}  // namespace

TEST_CASE("wrong values and keys get the suggestion that was meant", "[program]") {
  const TemporaryDirectory directory;
  const auto told = [&](const std::string& setting) {
    return refused(tandem_in(directory, {"train", "digits_mlp", setting}));
  };
  CHECK_THAT(told("precision=fp16"), Contains("did you mean \"amp_fp16\"?"));
  CHECK_THAT(told("device=gpu"), Contains("did you mean \"cuda\"?"));
  CHECK_THAT(told("checkpoint.best=top1"), Contains("did you mean \"accuracy\"?"));
  CHECK_THAT(told("schedule.name=linear"), Contains("did you mean \"polynomial\"?"));
  CHECK_THAT(told("data.name=mnist"), Contains("did you mean \"idx\"?"));
  CHECK_THAT(told("learning_rate=0.1"), Contains("did you mean optimizer.lr?"));
  CHECK_THAT(told("gpu=0"), Contains("did you mean device?"));
  CHECK_THAT(told("momentum=0.9"), Contains("did you mean optimizer.momentum?"));
  CHECK_THAT(told("cuda_graph=true"), Contains("did you mean \"on\"?"));
  CHECK_THAT(told("batch=32"), Contains("did you mean data.batch_size?"));
  CHECK_THAT(told("data.transforms=[]"), Contains("did you mean data.augment?"));
}

TEST_CASE("arrays with their channels first train once data.layout says so", "[program]") {
  const TemporaryDirectory directory;
  directory.write("config.json", kArrays);
  write_arrays(directory, {3, 8, 8}, 3);
  CHECK_THAT(refused(tandem_in(directory, {"train", "config.json"})),
             Contains("[60,3,8,8]") && Contains("data.layout=nchw"));
  REQUIRE(tandem_in(directory, {"train", "config.json", "data.layout=nchw", "-q"}).exit_code == 0);
  // predict takes what the run was trained on.
  tandem::datasets::testing::Bytes bytes(4 * 192 * 2);
  namespace files = tandem::datasets::testing;
  files::write_file(directory.path() / "two.npy",
                    files::npy_bytes(files::npy_header("<f4", false, "(2, 3, 8, 8)"), bytes));
  const Outcome two = tandem_in(directory, {"predict", "run", "two.npy"});
  INFO(two.err);
  CHECK(two.exit_code == 0);
  CHECK(line_count(two.out) == 2);
  files::write_file(
      directory.path() / "last.npy",
      files::npy_bytes(files::npy_header("<f4", false, "(2, 8, 8, 5)"), files::Bytes(4 * 320 * 2)));
  CHECK_THAT(refused(tandem_in(directory, {"predict", "run", "last.npy"})), Contains("[2,8,8,5]"));
}

TEST_CASE("data that is missing, or of another kind than the weights, is called so", "[program]") {
  const TemporaryDirectory directory;
  directory.write("config.json", kArrays);
  CHECK_THAT(refused(tandem_in(directory, {"train", "config.json"})),
             Contains("data.path") && Contains("arrays.npz"));
  write_arrays(directory, {6}, 3);
  REQUIRE(tandem_in(directory, {"train", "config.json", "-q"}).exit_code == 0);
  write_arrays(directory, {6}, 5);
  const std::string other = refused(tandem_in(directory, {"eval", "run"}));
  CHECK_THAT(other, Contains("3 classes") && Contains("5") && !Contains("skip_mismatched"));
  const std::string strict =
      refused(tandem_in(directory, {"train", "config.json", "init_from=run", "run_dir=next"}));
  CHECK_THAT(strict, Contains("init_from.path") && Contains("init_from.strict=false") &&
                         Contains("fc2.weight") && !Contains("skip_mismatched"));
  const Outcome loose = tandem_in(
      directory,
      {"train", "config.json", "init_from={\"path\": \"run\", \"strict\": false}", "run_dir=next", "-q"});
  INFO(loose.err);
  CHECK(loose.exit_code == 0);
}

TEST_CASE("weights know their classes by number, and refuse data with others", "[program]") {
  const TemporaryDirectory directory;
  directory.write("config.json", kPictures);
  write_pictures(directory);
  REQUIRE(tandem_in(directory, {"train", "config.json", "-q"}).exit_code == 0);
  namespace fs = std::filesystem;
  const auto rename = [&](const char* from, const char* to) {
    for (const char* split : {"train", "test"})
      fs::rename(directory.path() / "pictures" / split / from, directory.path() / "pictures" / split / to);
  };
  rename("cat", "eagle");  // now behind "dog"
  const auto both = Contains("were trained on other classes: cat, dog; image_folder has: dog, eagle");
  CHECK_THAT(refused(tandem_in(directory, {"eval", "run"})), both);
  CHECK_THAT(refused(tandem_in(directory, {"train", "run", "epochs=2"})), both);
  CHECK_THAT(refused(tandem_in(directory, {"train", "config.json", "init_from=run", "run_dir=next"})),
             both && Contains("init_from.strict=false"));
  const Outcome loose = tandem_in(
      directory, {"train", "config.json", R"(init_from={"path": "run", "strict": false})", "run_dir=next"});
  CHECK(loose.exit_code == 0);
  CHECK_THAT(loose.out + loose.err, both);
  rename("eagle", "cat");
  fs::remove(directory.path() / "pictures/train/cat/0.png");
  CHECK_THAT(refused(tandem_in(directory, {"train", "run", "epochs=2"})),
             Contains("was training on 8 samples, its data has 7 now"));
  CHECK_THAT(
      refused(tandem_in(directory, {"train", "config.json", "run_dir=next2", "model.hidden=[7,7]",
                                    R"(init_from={"path": "run", "strict": false})", "data.image_size=9"})),
      Contains("none of its") && Contains("fits a parameter of this model"));
}

TEST_CASE("samples that cannot be read are told of, each with its reason", "[program]") {
  const TemporaryDirectory directory;
  directory.write("config.json", kPictures);
  write_pictures(directory);
  directory.write("pictures/train/cat/1.png", "no picture");
  directory.write("pictures/test/dog/2.png", "no picture");
  CHECK_THAT(refused(tandem_in(directory, {"train", "config.json", "-q"})), Contains("cat/1.png"));
  const Outcome dry =
      tandem_in(directory, {"train", "config.json", "--dry-run", "data.skip_bad_samples=true"});
  CHECK_THAT(dry.out,
             Contains("cat/1.png") && Contains("dog/2.png") && Contains("2 samples could not be read"));
  for (const char* workers : {"data.workers=0", "data.workers=2"}) {
    const Outcome outcome = tandem_in(
        directory, {"train", "config.json", "data.skip_bad_samples=true", "run_dir=skips", workers});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK_THAT(outcome.err, Contains("sample skipped: ") && Contains("cat/1.png") && Contains("dog/2.png") &&
                                Contains("2 samples could not be read"));
  }
  CHECK_THAT(read_text(directory.path() / "skips/log.txt"),
             Contains("cat/1.png") && Contains("neither a JPEG nor a PNG") && Contains("2 samples"));
  CHECK_THAT(tandem_in(directory, {"eval", "skips"}).err, Contains("dog/2.png") && Contains("one sample"));
}

TEST_CASE("a folder of pictures is classified, picture by picture", "[program]") {
  const TemporaryDirectory directory;
  directory.write("config.json", kPictures);
  write_pictures(directory);
  REQUIRE(tandem_in(directory, {"train", "config.json", "-q"}).exit_code == 0);
  const Outcome outcome = tandem_in(directory, {"predict", "run", "pictures/test"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(line_count(outcome.out) == 8);
  CHECK_THAT(outcome.out, Contains("pictures/test/cat/0.png") && Contains("pictures/test/dog/3.png"));
  CHECK(tandem_in(directory, {"predict", "run", "pictures/test/cat/0.png"}).out ==
        outcome.out.substr(0, outcome.out.find('\n') + 1));
  std::filesystem::create_directory(directory.path() / "empty");
  CHECK_THAT(refused(tandem_in(directory, {"predict", "run", "empty"})),
             Contains("empty") && Contains(".png"));
  CHECK_THAT(refused(tandem_in(directory, {"predict", "run", "gone.png"})), Contains("no such file"));
}

TEST_CASE("the best figure is called what it is", "[program]") {
  const TemporaryDirectory directory;
  const std::vector<std::string> settings{"train",
                                          "digits_mlp",
                                          "-q",
                                          "epochs=6",
                                          "checkpoint.best=loss",
                                          "optimizer.lr=0.02",
                                          "schedule=constant"};
  const auto trained = [&](const std::vector<std::string>& more) {
    return must(tandem_in(directory, joined(settings, more))).out;
  };
  // At such a learning rate the figures go up and down, so that the last epoch is hardly the best.
  const std::string on_test = trained({"run_dir=on_test", "optimizer.lr=3"});
  CHECK_THAT(on_test, Contains("Test accuracy: ") && Contains(" %, loss ") && Contains("after epoch 6"));
  double best = 1e30, last = 0.0;
  for (const json& event : events_of(directory / "on_test", "eval"))
    if (event["metrics"]["loss"].is_number()) {
      last = event["metrics"]["loss"];
      best = std::min(best, last);
    }
  CHECK((on_test.find("chosen on the test split") != std::string::npos) == (best < last));
  const std::string on_validation = trained({"run_dir=on_validation", "data.validation_size=200"});
  CHECK_THAT(on_validation, Contains("with the weights of epoch ") && Contains("validation loss") &&
                                !Contains("optimistic"));
  CHECK_THAT(tandem_in(directory, {"eval", "on_test", "--weights", "best"}).err,
             Contains("chosen on the test split"));
  CHECK(tandem_in(directory, {"eval", "on_test", "--weights", "last"}).err.empty());
  CHECK(tandem_in(directory, {"eval", "on_validation", "--weights", "best"}).err.empty());
  REQUIRE(tandem_in(directory, {"report", "on_test", "--out", "page.html"}).exit_code == 0);
  CHECK_THAT(read_text(directory.path() / "page.html"), Contains("chosen on that split, so optimistic"));
}

TEST_CASE("a loss that is no number before any update is not blamed on the learning rate", "[program]") {
  const TemporaryDirectory directory;
  directory.write("config.json", kArrays);
  // Finite, but not any more once they are divided by the deviation that is given.
  std::vector<float> values(60 * 6, 1e30F);
  std::vector<std::int64_t> labels(60);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 3);
  directory.write("arrays.npz", tandem::datasets::npz_file({{"x_train", Tensor::from(values, {60, 6})},
                                                            {"y_train", Tensor::from(labels, {60})}}));
  const Outcome outcome =
      tandem_in(directory, {"train", "config.json", "-q",
                            "data.augment=[{\"name\": \"normalise\", \"mean\": 0, \"std\": 1e-12}]"});
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(outcome.err, Contains("before any update") && Contains("the learning rate is not the cause"));
}
