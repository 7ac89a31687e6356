// Segmentation from the user's view: a set of images with masks, training, resuming, inspection, prediction.
#include <fmt/core.h>

#include <array>
#include <set>

#include "core/random.h"
#include "data/image_file.h"
#include "data/png_write.h"
#include "tasks/segmentation/pictures.h"
#include "tests/data/files.h"
#include "tests/program/project.h"

using namespace tandem::testing;
using Catch::Contains;
using tandem::Index;
using tandem::RandomStream;
using tandem::Tensor;
using tandem::datasets::read_image;
using tandem::datasets::read_indices;
namespace fs = std::filesystem;
using Json = nlohmann::json;
using Bytes = std::vector<std::uint8_t>;

namespace {

constexpr Index kSide = 16;
constexpr std::uint8_t kIgnored = 255;

// Boxes of red (class 1) and of green (class 2) on dim noise.
struct Boxes {
  Bytes pixels, mask;
};

Boxes boxes(std::uint32_t number, Index height, Index width) {
  RandomStream random({.seed = 5, .purpose = tandem::RandomPurpose::synthetic_data, .call = number});
  Boxes made;
  for (Index i = 0; i < height * width * 3; ++i)
    made.pixels.push_back(static_cast<std::uint8_t>(random.below(80)));
  made.mask.resize(static_cast<std::size_t>(height * width));
  for (const std::uint8_t label : {1, 2}) {
    const Index side = 4 + random.below(4);
    const Index top = random.below(static_cast<std::uint32_t>(height - side));
    const Index left = random.below(static_cast<std::uint32_t>(width - side));
    for (Index y = top; y < top + side; ++y) {
      for (Index x = left; x < left + side; ++x) {
        const auto at = static_cast<std::size_t>(y * width + x);
        made.mask[at] = label;
        made.pixels[at * 3 + label - 1U] = 230;
        made.pixels[at * 3 + 2U - label] = 20;
      }
    }
  }
  return made;
}

void write_png(const fs::path& path, const std::string& bytes) {
  tandem::datasets::testing::write_file(path, {bytes.begin(), bytes.end()});
}

void write_image(const fs::path& path, const Bytes& pixels, Index height, Index width) {
  write_png(path, tandem::datasets::png_of(Tensor::from(pixels, {height, width, 3})));
}

void write_mask(const fs::path& path, const Bytes& mask, Index height, Index width) {
  write_png(path, tandem::datasets::png_of(Tensor::from(mask, {height, width})));
}

Json config() {
  return {{"task", "segmentation"},
          {"model", {{"name", "unet"}, {"width", 4}, {"levels", 2}}},
          {"data",
           {{"name", "masks"},
            {"path", "set"},
            {"class_names", {"nothing", "red", "green"}},
            {"batch_size", 4},
            {"eval_batch_size", 4}}},
          {"optimizer", {{"name", "adam"}, {"lr", 0.02}}},
          {"epochs", 3},
          {"tensorboard", false}};
}

// With "set", of 16 images to train on and 6 to test on.
class Segmentation : public Project {
 public:
  explicit Segmentation(const Json& patch = Json::object()) : Project(config(), patch) {
    for (std::uint32_t i = 0; i < 22; ++i) {
      const fs::path split = *this / "set" / (i < 16 ? "train" : "test");
      Boxes made = boxes(i, kSide, kSide);
      made.mask[0] = kIgnored;
      const std::string name = std::to_string(i) + ".png";
      write_image(split / "images" / name, made.pixels, kSide, kSide);
      write_mask(split / "masks" / name, made.mask, kSide, kSide);
    }
  }
};

// What a chunk of a PNG file holds; "" where there is none.
std::string chunk_of(const std::string& png, const std::string& name) {
  const auto number = [&](std::size_t at) {
    std::size_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(png[at + i]);
    return value;
  };
  for (std::size_t at = 8; at + 12 <= png.size(); at += 12 + number(at))
    if (png.substr(at + 4, 4) == name) return png.substr(at + 8, number(at));
  return "";
}

double agreement(const Bytes& a, const Bytes& b) {
  REQUIRE(a.size() == b.size());
  std::size_t equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i] ? 1U : 0U;
  return static_cast<double>(equal) / static_cast<double>(a.size());
}

}  // namespace

TEST_CASE("predict writes a mask with a palette and lays it over the image", "[program][segmentation]") {
  const Segmentation task;
  task.must_train("run", {"epochs=12"});
  CHECK(task.events("run", "eval").back()["metrics"]["miou"].get<double>() > 0.9);

  // Of a size that the network cannot take as it is, and that it was not trained on.
  constexpr Index kHeight = 30, kWidth = 21;
  const Boxes scene = boxes(100, kHeight, kWidth);
  write_image(task / "scene.png", scene.pixels, kHeight, kWidth);
  const Outcome outcome = task.must({"predict", "run", "scene.png", "--out", "masks/mask.png"});
  CHECK(line_count(outcome.out) == 1);
  CHECK_THAT(outcome.out, Catch::StartsWith("scene.png → masks/mask.png  nothing ") && Contains("  red ") &&
                              Contains("  green ") && Contains(" %"));

  const Tensor mask = read_indices(task / "masks/mask.png");
  REQUIRE(mask.shape() == tandem::Shape{kHeight, kWidth});
  const Bytes classes = mask.to_vector<std::uint8_t>();
  CHECK(agreement(classes, scene.mask) > 0.95);
  CHECK(std::set<std::uint8_t>(classes.begin(), classes.end()) == std::set<std::uint8_t>{0, 1, 2});
  // A palette of three colours: those of the classes, in order.
  const std::string file = read_text(task / "masks/mask.png");
  CHECK(chunk_of(file, "IHDR")[9] == 3);
  CHECK(chunk_of(file, "PLTE") == std::string("\0\0\0\x80\0\0\0\x80\0", 9));

  const Bytes over = read_image(task / "masks/mask-overlay.png").to_vector<std::uint8_t>();
  REQUIRE(over.size() == scene.pixels.size());
  const std::array<std::array<int, 3>, 3> colours{{{0, 0, 0}, {128, 0, 0}, {0, 128, 0}}};
  int different = 0;
  for (std::size_t i = 0; i < over.size(); ++i) {
    const std::uint8_t label = classes[i / 3];
    const int half = (scene.pixels[i] + colours[label][i % 3] + 1) / 2;
    different += over[i] != (label == 0 ? scene.pixels[i] : half) ? 1 : 0;
  }
  CHECK(different == 0);

  // Of a folder into a folder, as a program reads it.
  const Outcome several =
      task.must({"predict", "run", "set/test/images", "scene.png", "--out", "all", "--json"});
  REQUIRE(line_count(several.out) == 7);
  const Json first = Json::parse(several.out.substr(0, several.out.find('\n')));
  CHECK(first["input"] == "set/test/images/16.png");
  CHECK(first["mask"] == "all/16.png");
  CHECK(first["overlay"] == "all/16-overlay.png");
  double share = 0.0;
  for (const Json& each : first["classes"]) share += each["share"].get<double>();
  CHECK(share == Approx(1.0));
  CHECK(first["classes"][0]["name"] == "nothing");
  CHECK(first["classes"][0]["class"] == 0);
  const bool same = read_text(task / "all/scene.png") == file;
  CHECK(same);
  CHECK(std::distance(fs::directory_iterator(task / "all"), fs::directory_iterator()) == 14);
}

TEST_CASE("predict says what it cannot take or write", "[program][segmentation]") {
  const Segmentation task;
  task.must_train("run", {"epochs=1"});
  const std::string image = "set/test/images/16.png";
  fs::create_directories(task / "empty");
  std::ofstream(task / "broken.png") << "no picture";
  std::ofstream(task / "notes.txt") << "no picture";
  CHECK_THAT(task.refused({"predict", "run", image}), Contains("--out is missing"));
  CHECK_THAT(task.refused({"predict", "run", "--out", "mask.png"}), Contains("inputs are missing"));
  CHECK_THAT(task.refused({"predict", "run", "notes.txt", "--out", "mask.png"}),
             Contains("notes.txt: not an image"));
  CHECK_THAT(task.refused({"predict", "run", "broken.png", "--out", "mask.png"}),
             Contains("broken.png") && Contains("neither a JPEG nor a PNG"));
  CHECK_THAT(task.refused({"predict", "run", "gone.png", "--out", "mask.png"}),
             Contains("gone.png: there is no such file"));
  CHECK_THAT(task.refused({"predict", "run", "empty", "--out", "all"}),
             Contains("empty: has no .jpg, .jpeg or .png"));
  CHECK_THAT(task.refused({"predict", "run", "set/test/images", "--out", "mask.png"}),
             Contains("mask.png is one file, for 6 images"));
  CHECK_THAT(task.refused({"predict", "run", image, "set/test/images", "--out", "all"}),
             Contains("16.png and set/test/images/16.png would both be written to all/16.png"));
  CHECK_THAT(task.refused({"predict", "run", image, "--out", image}), Contains("would replace the image"));
  CHECK_THAT(task.refused({"predict", "run", image, "--out", "set/test/images"}),
             Contains("would replace the image"));
  const Outcome no_folder = task.run({"predict", "run", image, "--out", "notes.txt/mask.png"});
  CHECK(no_folder.exit_code == 1);
  CHECK_THAT(no_folder.err, Contains("notes.txt: the folder cannot be created"));
  CHECK_THAT(task.refused({"predict", "run", image, "--top", "3", "--out", "mask.png"}), Contains("--top"));
  CHECK_FALSE(fs::exists(task / "mask.png"));
}

TEST_CASE("a set whose masks cannot be used stops a run in one line", "[program][segmentation]") {
  const auto refused = [](const std::function<void(const Segmentation&)>& spoil,
                          const std::vector<std::string>& more = {}) {
    const Segmentation task;
    spoil(task);
    return tandem::testing::refused(task.train("run", more));
  };
  for (const char* workers : {"data.workers=0", "data.workers=2"}) {
    CHECK_THAT(refused(
                   [](const Segmentation& task) {
                     write_mask(task / "set/train/masks/3.png", Bytes(15 * 16, 1), 15, 16);
                   },
                   {workers}),
               Contains("train/masks/3.png] has 16x15 pixels, its image 16x16"));
    CHECK_THAT(refused(
                   [](const Segmentation& task) {
                     Bytes mask(256, 0);
                     mask[37] = 9;
                     write_mask(task / "set/train/masks/4.png", mask, kSide, kSide);
                   },
                   {workers}),
               Contains("train/masks/4.png] holds 9 in row 2, column 5, which is none of the 3 classes"));
  }
  // Of the set that is evaluated on, when its turn comes.
  CHECK_THAT(refused([](const Segmentation& task) {
               write_mask(task / "set/test/masks/20.png", Bytes(256, 3), kSide, kSide);
             }),
             Contains("test/masks/20.png] holds 3 in row 0, column 0"));
  CHECK_THAT(refused([](const Segmentation& task) { fs::remove(task / "set/train/masks/5.png"); }),
             Contains("train/images/5.png] has no mask: there is no ") && Contains("train/masks/5.png"));
  CHECK_THAT(refused([](const Segmentation& task) {
               for (const char* part : {"images", "masks"}) {
                 fs::remove_all(task / "set/train" / part);
                 fs::create_directories(task / "set/train" / part);
               }
             }),
             Contains("train/images] has no .jpg, .jpeg or .png file in it"));
  CHECK_THAT(refused([](const Segmentation& task) { fs::remove_all(task / "set"); }),
             Contains("[data.path] set: there is no such folder; expected train/images"));
  CHECK_THAT(refused([](const Segmentation&) {}, {"loss=bce_dice"}),
             Contains("bce_dice needs two classes, the data has 3"));
  CHECK_THAT(refused([](const Segmentation&) {}, {"model.levels=5"}), Contains("model") && Contains("16"));
  CHECK_THAT(refused([](const Segmentation&) {}, {"model=lenet"}), Contains("model"));
  CHECK_THAT(refused([](const Segmentation&) {}, {"loss.class_weights=[1,2]"}),
             Contains("loss.class_weights: has 2 weights, the data has 3 classes"));
  CHECK_THAT(refused([](const Segmentation&) {}, {"checkpoint.best=iou"}), Contains("miou"));
}

TEST_CASE("masks that cannot be read may be left out, and are told of", "[program][segmentation]") {
  const Segmentation task;
  std::ofstream(task / "set/train/masks/3.png") << "no picture";
  const Outcome outcome =
      task.must({"train", "config.json", "run_dir=run", "epochs=1", "data.skip_bad_samples=true"});
  CHECK_THAT(outcome.err, Contains("sample skipped: ") && Contains("masks/3.png"));
}

TEST_CASE("a run of segmentation goes on to the bit within an epoch", "[program][segmentation]") {
  const Segmentation task(
      {{"data", {{"augment", {"horizontal_flip", {{"name", "random_crop"}, {"size", 16}, {"padding", 2}}}}}},
       {"checkpoint", {{"every_steps", 1}}}});
  const std::string scaler = R"(precision.scaler={"mode": "dynamic", "initial": 1024, "interval": 3})";
  for (const std::string precision : {"fp32", "amp_bf16", "amp_fp16"}) {
    INFO(precision);
    std::vector<std::string> common{"precision=" + precision, "accumulate=2", "data.batch_size=3",
                                    "loss.batch_weight=pixels"};
    if (precision == "amp_fp16") common.push_back(scaler);
    // Three steps of two batches are an epoch: the fourth lies in the second.
    task.check_goes_on("-" + precision, common, 4);
    const auto picture = [&](const std::string& run) {
      const std::string file = read_text(task / (run + precision) / "pictures/examples-test-0003.png");
      CHECK(file.size() > 200);
      return file;
    };
    const bool same_picture = picture("whole-") == picture("parts-");
    CHECK(same_picture);
  }
}

TEST_CASE("steps of segmentation that overflow are told of and retried", "[program][segmentation]") {
  const Segmentation task;
  const std::vector<std::string> common{"precision=amp_fp16", "precision.diagnose=2", "epochs=2"};
  auto retried = common, plain = common;
  retried.insert(retried.end(), {"precision.on_skip=retry",
                                 R"(precision.scaler={"initial": 1073741824, "ceiling": 1073741824})"});
  task.must_train("retried", retried);
  const auto steps = task.events("retried", "step");
  CHECK(steps.back()["skipped"].get<int>() > 0);
  CHECK(steps.back()["applied"] == 8);
  const auto overflows = task.events("retried", "overflow");
  REQUIRE(overflows.size() == 2);
  CHECK(overflows.front()["cause"] == "scale");
  // No batch was lost: what a scale that never overflows leads to, the one that all applied steps had.
  const double scale = steps.front()["loss_scale"];
  for (const Json& step : steps) REQUIRE(step["loss_scale"] == scale);
  plain.push_back(fmt::format(R"(precision.scaler={{"static": {}}})", scale));
  task.must_train("plain", plain);
  const bool same = saved_tensors(task / "retried", "weights") == saved_tensors(task / "plain", "weights");
  CHECK(same);
}

TEST_CASE("every command takes a task of segmentation", "[program][segmentation]") {
  const Segmentation task({{"tensorboard", true}, {"eval", {{"confusion", true}}}});
  task.must_train("run");
  const auto evaluations = task.events("run", "eval");
  REQUIRE(evaluations.size() == 3);
  for (const char* figure : {"miou", "dice", "pixel_accuracy", "loss"})
    CHECK(evaluations.back()["metrics"].contains(figure));
  CHECK_THAT(read_text(task / "run/confusion.csv"), Catch::StartsWith("true\\predicted,nothing,red,green\n"));
  // Image, truth and prediction of four, each 128 pixels wide.
  const Tensor sheet = read_image(task / "run/pictures/examples-test-0003.png");
  REQUIRE(sheet.shape() == tandem::Shape{4 * 132 - 4, 3 * 132 - 4, 3});
  const Tensor image = read_image(task / "set/test/images/16.png");
  int different = 0;
  for (Index y = 0; y < kSide; ++y) {
    for (Index i = 0; i < 3 * kSide; ++i) {
      const int shown = sheet.data<std::uint8_t>()[y * 8 * sheet.size(1) * 3 + i / 3 * 24 + i % 3];
      different += std::abs(shown - image.data<std::uint8_t>()[y * 3 * kSide + i]) > 1 ? 1 : 0;
    }
  }
  CHECK(different == 0);
  task.check_commands({{"export", "run", "--format", "onnx"}});
  CHECK_THAT(task.run({"train", "config.json", "--dry-run"}).out,
             Contains("16 training, 6 test images with masks, 3 classes") &&
                 Contains("batch: [4,16,16,3] and masks [4,16,16]"));
  CHECK_THAT(read_text(task / "run/report.html"),
             Contains("miou") && Contains("data:image/png;base64,iVBORw0KGgo"));
  CHECK_THAT(read_text(task / "run/exports/best.onnx"),
             Contains("ConvTranspose") && Contains("Concat") && Contains("tandem.mean"));
}
