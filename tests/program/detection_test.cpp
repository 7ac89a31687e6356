// Detection from the user's view: scenes and files with boxes, training, resuming, evaluation, prediction.
#include <fmt/core.h>

#include <fstream>
#include <set>

#include "data/boxes/box_registry.h"
#include "data/boxes/image_maker.h"
#include "data/image_file.h"
#include "data/png_write.h"
#include "tests/data/files.h"
#include "tests/program/project.h"
#include "tests/support/box_files.h"

using namespace tandem::testing;
using Catch::Contains;
using tandem::Index;
using tandem::Tensor;
using tandem::datasets::read_image;
using tandem::datasets::testing::write_coco;
using tandem::datasets::testing::write_voc;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

Json config() {
  return {{"task", "detection"},
          {"model", {{"name", "ssd_small"}, {"width", 4}}},
          {"data",
           {{"name", "scenes"},
            {"items", "digits"},
            {"scene_size", 64},
            {"most_items", 2},
            {"train_size", 24},
            {"test_size", 6},
            {"batch_size", 4},
            {"eval_batch_size", 4}}},
          {"optimizer", {{"name", "sgd"}, {"lr", 0.02}}},
          {"epochs", 2},
          {"tensorboard", false}};
}

class Detection : public Project {
 public:
  explicit Detection(const Json& patch = Json::object()) : Project(config(), patch) {}
};

void write_png(const fs::path& path, const Tensor& image) {
  const std::string bytes = tandem::datasets::png_of(image);
  tandem::datasets::testing::write_file(path, {bytes.begin(), bytes.end()});
}

// The first test scene of `task`, as a file.
void write_scene(const fs::path& path) {
  const auto splits =
      tandem::datasets::open_box_set("scenes", {.train_size = 1, .test_size = 1},
                                     {{"items", "digits"}, {"scene_size", 64}, {"most_items", 2}});
  write_png(path, splits.test.maker->image(splits.test.images.front().id));
}

}  // namespace

TEST_CASE("every command takes a task of detection", "[program][detection]") {
  const Detection task({{"tensorboard", true}, {"eval", {{"results", true}}}});
  const Outcome dry = task.must({"train", "config.json", "--dry-run"});
  CHECK_THAT(dry.out, Contains("24 training, 6 test images with boxes") && Contains("[4,64,64,1] with ") &&
                          Contains("no anchor overlaps "));
  task.must_train("run");
  const auto evaluations = task.events("run", "eval");
  REQUIRE(evaluations.size() == 2);
  for (const char* figure : {"AP", "AP50", "AP75", "AR1", "AR10", "AR100", "mAP", "loss"}) {
    CAPTURE(figure);
    CHECK(evaluations.back()["metrics"].contains(figure));
  }
  // True and found boxes of four images, side by side.
  const Tensor sheet = read_image(task / "run/pictures/examples-test-0002.png");
  CHECK(sheet.size(0) > 4 * 64);
  CHECK(sheet.size(1) > 2 * 64);
  task.check_commands({{"export", "run", "--format", "onnx", "--suppress"}});
  CHECK_THAT(task.refused({"export", "run", "--format", "npz", "--suppress"}), Contains("--format onnx"));
  CHECK_THAT(read_text(task / "run/report.html"),
             Contains("AP50") && Contains("data:image/png;base64,iVBORw0KGgo") &&
                 Contains("Precision over recall") && Contains("<th>voc</th>"));
  CHECK_THAT(task.must({"validate", "config.json"}).out, Contains("no anchor overlaps "));
  const Outcome by_class = task.must({"eval", "run", "--by-class", "--out", "evaluated"});
  CHECK_THAT(by_class.out, Contains("class") && Contains("AP50") && Contains(" %"));
  CHECK(read_text(task / "evaluated/detections.json") == read_text(task / "run/detections.json"));
  CHECK(fs::exists(task / "evaluated/detections/comp4_det_test_7.txt"));
  // Results as COCO's and VOC's own tools read them.
  const Json results = Json::parse(read_text(task / "run/detections.json"));
  for (const Json& each : results) {
    CHECK(each["bbox"].size() == 4);
    CHECK(each["image_id"].get<std::int64_t>() > 100'000'000);
    CHECK(each["category_id"].get<int>() >= 1);
  }
  CHECK(std::distance(fs::directory_iterator(task / "run/detections"), fs::directory_iterator()) == 10);
}

TEST_CASE("a run of detection goes on to the bit within an epoch", "[program][detection]") {
  const Detection task(
      {{"data",
        {{"augment",
          {"photometric", "expand", "ssd_crop", "horizontal_flip", {{"name", "resize"}, {"size", 64}}}}}},
       {"checkpoint", {{"every_steps", 1}}}});
  for (const std::string precision : {"fp32", "amp_bf16", "amp_fp16"}) {
    INFO(precision);
    std::vector<std::string> common{"precision=" + precision, "accumulate=2"};
    if (precision == "amp_fp16")
      common.push_back(R"(precision.scaler={"mode": "dynamic", "initial": 1024, "interval": 3})");
    task.check_goes_on("-" + precision, common, 4);
  }
}

// Killed wherever it happens to be, with steps that overflow and boxes that are drawn anew in every epoch.
TEST_CASE("a run of detection that is killed again and again ends as if it had not been",
          "[program][detection]") {
  const Detection task(
      {{"data", {{"augment", {"photometric", "expand", "ssd_crop", {{"name", "resize"}, {"size", 64}}}}}},
       {"checkpoint", {{"every_steps", 1}}},
       {"epochs", 8}});
  const std::vector<std::string> common{
      "precision=amp_fp16",
      R"(precision.scaler={"mode": "dynamic", "initial": 1073741824, "ceiling": 1073741824, "interval": 7})"};
  task.must_train("whole", common);
  CHECK(task.events("whole", "step").back()["skipped"].get<int>() > 0);
  CHECK(task.train_killed("killed", common, 1500, 6000) > 1);
  CHECK(task.same_end("whole", "killed"));
  CHECK(task.events("killed", "step").size() == task.events("whole", "step").size());
}

// Their loss is FP32 all the same (tests/tasks/detection/precision_test.cpp).
TEST_CASE("detectors train at every level, and with lists that name the ops of their loss",
          "[program][detection]") {
  const Detection task(Json{{"epochs", 1}});
  const char* const lists = R"("lists":{"allow":["cross_entropy","smooth_l1_loss","sum","mul","reshape"]})";
  for (const std::string dtype : {"fp16", "bf16"}) {
    for (const std::string level : {"O1", "O2", "O3"}) {
      for (const std::string& more : {std::string(), "," + std::string(lists)}) {
        const std::string precision =
            fmt::format(R"(precision={{"level":"{}","dtype":"{}"{}}})", level, dtype, more);
        INFO(precision);
        const std::string run = fmt::format("{}-{}-{}", level, dtype, more.size());
        task.must_train(run, {precision});
        CHECK(task.events(run, "eval").back()["metrics"]["loss"].get<double>() > 0.0);
      }
    }
  }
}

TEST_CASE("a detector finds what it was shown", "[program][detection]") {
  const Detection task;
  task.must_train("run", {"epochs=80", "model.width=8", "data.overfit_batches=2", "eval.every_epochs=80",
                          "optimizer.lr=0.05", R"(schedule={"name": "one_cycle"})"});
  const Json last = task.events("run", "eval").back();
  CHECK(last["metrics"]["AP50"].get<double>() > 0.9);
  CHECK(last["metrics"]["AP"].get<double>() > 0.6);
}

// Of VOC's photographs that come with labelme: coordinates with fractions, no lists of images.
TEST_CASE("a detector learns three photographs by heart", "[program][detection]") {
  const char* const photographs = "/usr/share/doc/labelme-examples/examples/bbox_detection/data_dataset_voc";
  if (!fs::exists(fs::path(photographs) / "JPEGImages/2011_000003.jpg")) {
    WARN("left out: Debian's package labelme-examples, which has the photographs, is not there");
    return;
  }
  const Detection task;
  task.must_train("run", {fmt::format(R"(data={{"name": "voc", "path": "{}", "train": ["."], "test": ["."],
                                          "image_size": 128, "batch_size": 3}})",
                                      photographs),
                          "model.width=16", "epochs=150", "eval.every_epochs=150", "optimizer.lr=0.03",
                          R"(schedule={"name": "one_cycle"})"});
  const Json last = task.events("run", "eval").back();
  CHECK(last["metrics"]["AP50"].get<double>() == Approx(1.0));
  CHECK(last["metrics"]["AP"].get<double>() > 0.9);
}

TEST_CASE("predict draws boxes and prints them", "[program][detection]") {
  const Detection task;
  task.must_train("run", {"epochs=1"});
  write_scene(task / "scene.png");
  const Outcome drawn = task.must({"predict", "run", "scene.png", "--out", "boxes.png"});
  CHECK_THAT(drawn.out, Catch::StartsWith("scene.png"));
  CHECK(read_image(task / "boxes.png").shape() == tandem::Shape{64, 64, 3});
  const Json line = Json::parse(task.must({"predict", "run", "scene.png", "--json"}).out);
  CHECK(line["input"] == "scene.png");
  CHECK(line["width"] == 64);
  CHECK(line["boxes"].is_array());
  CHECK_THAT(task.must({"predict", "run", "scene.png", "--threshold", "1"}).out,
             Contains("no detections; the best box has ") && Contains("(--threshold shows more)"));
  CHECK_THAT(task.must({"predict", "run", "scene.png", "--threshold", "0"}).out, Contains("\n  "));
  CHECK_THAT(task.refused({"predict", "run"}), Contains("inputs are missing"));
  CHECK_THAT(task.refused({"predict", "run", "scene.png", "--out", "scene.png"}),
             Contains("would replace the image"));
  CHECK_THAT(task.refused({"predict", "run", "config.json"}), Contains("config.json: not an image"));
}

// Photographs would be brought to the model's size; these have three channels in their files, and are read as
// grey.
TEST_CASE("a set in COCO's files and in VOC's is one set", "[program][detection]") {
  const Detection task;
  auto splits = tandem::datasets::open_box_set("scenes", {.train_size = 12, .test_size = 4},
                                               {{"items", "digits"}, {"scene_size", 80}, {"most_items", 3}});
  const fs::path set = task / "set";
  for (auto* const corpus : {&splits.train, &splits.test}) {
    for (auto& image : corpus->images) {
      image.file = (set / "JPEGImages" / (image.name + ".png")).string();
      write_png(image.file, corpus->maker->image(image.id));
    }
  }
  write_coco(splits.train, set / "train.json", set / "JPEGImages");
  write_coco(splits.test, set / "test.json", set / "JPEGImages");
  write_voc(splits.train, set, "train");
  write_voc(splits.test, set, "test");
  const std::vector<std::string> common{"data.image_size=64", "data.channels=1", "data.batch_size=4",
                                        "data.path=set", "eval.results=true"};
  const auto train = [&](const std::string& run, const std::string& data) {
    auto settings = common;
    settings.insert(settings.begin(), "data=" + data);
    task.must_train(run, settings);
    return task.events(run, "eval").back()["metrics"];
  };
  const Json coco =
      train("coco", R"({"name": "coco", "train": {"annotations": "train.json", "images": "JPEGImages"},
                                      "test": {"annotations": "test.json", "images": "JPEGImages"}})");
  const Json voc = train("voc", R"({"name": "voc", "train": ["train"], "test": ["test"]})");
  CHECK(coco == voc);
  CHECK(saved_tensors(task / "coco", "weights") == saved_tensors(task / "voc", "weights"));
  const std::string first = read_text(task / "voc/detections/comp4_det_test_0.txt");
  CHECK_THAT(first, Catch::StartsWith("scene-1000000"));
}

TEST_CASE("images with boxes that cannot be read are told of, or left out and counted",
          "[program][detection]") {
  const Detection task(Json{{"epochs", 1}});
  auto splits = tandem::datasets::open_box_set("scenes", {.train_size = 8, .test_size = 5},
                                               {{"items", "digits"}, {"scene_size", 64}, {"most_items", 2}});
  for (auto* const split : {&splits.train, &splits.test}) {
    for (auto& image : split->images) {
      image.file = (task / "set/JPEGImages" / (image.name + ".png")).string();
      write_png(image.file, split->maker->image(image.id));
    }
  }
  write_coco(splits.train, task / "set/train.json", task / "set/JPEGImages");
  write_coco(splits.test, task / "set/test.json", task / "set/JPEGImages");
  write_voc(splits.train, task / "set", "train");
  write_voc(splits.test, task / "set", "test");
  const auto with = [](const std::string& data, std::vector<std::string> settings,
                       const std::vector<std::string>& more = {}) {
    settings.push_back("data=" + data);
    for (const char* each :
         {"data.path=set", "data.image_size=64", "data.channels=1", "data.batch_size=4", "eval.results=true"})
      settings.emplace_back(each);
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
  };
  for (const std::string data :
       {R"({"name": "coco", "train": {"annotations": "train.json", "images": "JPEGImages"},
            "test": {"annotations": "test.json", "images": "JPEGImages"}})",
        R"({"name": "voc", "train": ["train"], "test": ["test"],
            "class_names": ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]})"}) {
    INFO(data);
    const std::string name = data.find("coco") != std::string::npos ? "coco" : "voc";
    task.must_train(name + "-whole", with(data, {}));
    const std::string image = read_text(splits.train.images[3].file),
                      test = read_text(splits.test.images[1].file);
    std::ofstream(splits.train.images[3].file) << image.substr(0, image.size() / 2);
    std::ofstream(splits.test.images[1].file) << "no picture";
    const auto check = [&](const std::string& text, const char* summary) {
      for (const auto* split : {&splits.train.images[3], &splits.test.images[1]})
        CHECK_THAT(text, Contains("JPEGImages/" + split->name));
      CHECK_THAT(text, Contains(summary));
    };
    auto arguments = with(data, {"train", "config.json", "--dry-run"});
    const Outcome dry = task.run(arguments);
    CHECK(dry.exit_code == 2);
    check(dry.err, "2 samples of the data cannot be read");
    CHECK_THAT(dry.err, Contains("; data.skip_bad_samples=true takes the next sample"));
    arguments.emplace_back("data.skip_bad_samples=true");
    check(task.must(arguments).out, "2 samples could not be read");
    const Outcome trained = task.train(name, with(data, {}, {"data.skip_bad_samples=true"}));
    INFO(trained.err);
    REQUIRE(trained.exit_code == 0);
    check(read_text(task / name / "log.txt"), "2 samples could not be read");
    // The image in its place counts once: a detection is there once.
    const Json found = Json::parse(read_text(task / name / "detections.json"));
    std::set<std::string> boxes;
    std::set<std::int64_t> images;
    for (const Json& each : found) {
      CHECK(boxes.insert(each.dump()).second);
      images.insert(each["image_id"].get<std::int64_t>());
    }
    CHECK(images.size() == splits.test.images.size() - 1);
    arguments = with(data, {"train", "config.json", "run_dir=strict"},
                     {"data.skip_bad_samples=true", "data.max_bad_samples=0"});
    CHECK_THAT(task.run(arguments).err,
               Contains("more than 0 samples cannot be read (data.max_bad_samples)"));
    // A run that met one goes on without it.
    const Outcome goes_on = task.must({"train", name + "-whole", "epochs=2", "data.skip_bad_samples=true"});
    CHECK_THAT(goes_on.out + goes_on.err, Contains("2 samples could not be read"));
    std::ofstream(splits.train.images[3].file) << image;
    std::ofstream(splits.test.images[1].file) << test;
  }
}

TEST_CASE("a detector knows its classes by name when their ids change", "[program][detection]") {
  const Detection task;
  auto splits = tandem::datasets::open_box_set("scenes", {.train_size = 8, .test_size = 5},
                                               {{"items", "digits"}, {"scene_size", 64}, {"most_items", 2}});
  for (auto* const split : {&splits.train, &splits.test}) {
    for (auto& image : split->images) {
      image.file = (task / "images" / (image.name + ".png")).string();
      write_png(image.file, split->maker->image(image.id));
    }
  }
  const auto write = [&](std::int64_t first, std::int64_t step) {
    for (auto* const split : {&splits.train, &splits.test}) {
      auto& ids = split->classes.ids;
      for (std::size_t label = 1; label < ids.size(); ++label)
        ids[label] = first + step * static_cast<std::int64_t>(label);
      write_coco(*split, task / (split == &splits.train ? "train.json" : "test.json"), task / "images");
    }
  };
  write(0, 1);
  const std::vector<std::string> data{
      R"(data={"name": "coco", "train": {"annotations": "train.json", "images": "images"},
               "test": {"annotations": "test.json", "images": "images"}})",
      "data.path=.", "data.image_size=64", "data.channels=1", "data.batch_size=4"};
  const auto train = [&](const std::string& run, const std::string& more) {
    auto settings = data;
    settings.push_back(more);
    task.must_train(run, settings);
  };
  train("whole", "epochs=3");
  train("run", "epochs=2");
  const std::vector<std::string> eval{"eval", "run", "--json", "--by-class"};
  const Json before = Json::parse(task.must(eval).out);
  write(500, -7);  // the last class is the first now
  const Outcome after = task.must(eval);
  CHECK_THAT(after.err, Contains("tandem: note: classes are in another order than in the weights: mapped by "
                                 "name (background, 0, 1, 2"));
  CHECK(Json::parse(after.out) == before);
  const Outcome goes_on = task.must({"train", "run", "epochs=3"});
  CHECK_THAT(goes_on.out + goes_on.err, Contains("classes are in another order than in the weights"));
  CHECK(saved_tensors(task / "run", "weights") == saved_tensors(task / "whole", "weights"));
  // Results have the ids that the file has.
  task.must({"eval", "run", "--out", "evaluated"});
  for (const Json& each : Json::parse(read_text(task / "evaluated/detections.json")))
    CHECK(each["category_id"].get<int>() > 400);
}

// A name of several words stands in no line of VOC's, and two classes may differ by what no file name has.
TEST_CASE("results are written whatever images and classes are called", "[program][detection]") {
  const Detection task(Json{{"epochs", 1}});
  auto splits = tandem::datasets::open_box_set("scenes", {.train_size = 4, .test_size = 4},
                                               {{"items", "digits"}, {"scene_size", 64}, {"most_items", 2}});
  fs::create_directories(task / "images");
  for (auto* const split : {&splits.train, &splits.test}) {
    split->classes.names[1] = "a/b";
    split->classes.names[2] = "a_b";
    for (auto& image : split->images) {
      image.file = task / fmt::format("images/my scene {}.png", image.id);
      write_png(image.file, split->maker->image(image.id));
    }
  }
  write_coco(splits.train, task / "train.json", task / "images");
  write_coco(splits.test, task / "test.json", task / "images");
  std::vector<std::string> settings{
      R"(data={"name": "coco", "train": {"annotations": "train.json", "images": "images"},
               "test": {"annotations": "test.json", "images": "images"}})",
      "data.image_size=64",
      "data.channels=1",
      "data.batch_size=4",
      "data.path=.",
      "eval.results=true"};
  const Outcome trained = task.train("spaces", settings);
  INFO(trained.err);
  REQUIRE(trained.exit_code == 0);
  CHECK_THAT(read_text(task / "spaces/log.txt"), Contains("eval.results: only detections.json"));
  CHECK(fs::exists(task / "spaces/detections.json"));
  CHECK_THAT(read_text(task / "spaces/detections/none.txt"),
             Contains("VOC's format needs a name of one word"));
  // No object of a size, or none at all.
  CHECK_THAT(task.refused_to_train([&] {
    auto large = settings;
    large.emplace_back("checkpoint.best=AP_large");
    return large;
  }()),
             Contains("checkpoint.best: the test split has no AP_large: no object has 96² pixels or more"));
  for (auto& image : splits.test.images) image.objects.clear();
  write_coco(splits.test, task / "test.json", task / "images");
  CHECK_THAT(task.refused_to_train(settings),
             Contains("the test split has no AP") && Contains("it has loss"));
}

TEST_CASE("errors of a detector's configuration are one line", "[program][detection]") {
  const Detection task;
  CHECK_THAT(task.refused_to_train({"model=resnet8"}), Contains("is no detector"));
  CHECK_THAT(task.refused_to_train({"model={\"name\": \"ssd_small\", \"num_classes\": 10}"}),
             Contains("model.num_classes") && Contains("background"));
  CHECK_THAT(task.refused_to_train({"model=ssd300_resnet18"}), Contains("300"));
  CHECK_THAT(task.refused_to_train({"data.most_items=0"}), Contains("data.most_items"));
  CHECK_THAT(task.refused_to_train({"loss.threshold=1.5"}), Contains("loss.threshold"));
  CHECK_THAT(task.refused_to_train({"checkpoint.best=ap"}), Contains("AP"));
  CHECK_THAT(task.refused_to_train({"data={\"name\": \"coco\", \"path\": \"gone\"}"}), Contains("gone"));
}
