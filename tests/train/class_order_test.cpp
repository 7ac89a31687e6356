// Data with another order of classes than the weights: labels follow by name for any kind of data, in
// evaluations, with init_from, and in resumed runs.
#include <fmt/core.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "config/load.h"
#include "config/task.h"
#include "data/png_write.h"
#include "files/json_text.h"
#include "models/weights.h"
#include "runs/checkpoints.h"
#include "runs/run_data.h"
#include "tests/data/boxes/support.h"
#include "tests/support/temporary_files.h"
#include "train/evaluate.h"
#include "train/trainer.h"

using namespace tandem;
using Catch::Contains;
using testing::TemporaryDirectory;
using testing::user_error_of;
using Json = nlohmann::json;
using Names = std::vector<std::string>;

namespace {

constexpr Index kSide = 64;
constexpr int kImages = 6;
constexpr int kTests = 2;  // the last ones

// An image of noise with a square of the class's colour at (x, x).
Tensor picture(int number, int label, Index x) {
  std::vector<std::uint8_t> pixels(kSide * kSide * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>((i * 37 + static_cast<std::size_t>(number) * 91) % 97);
  for (Index row = x; row < x + 24; ++row)
    for (Index column = x; column < x + 24; ++column)
      pixels[static_cast<std::size_t>((row * kSide + column) * 3 + label)] = 255;
  return Tensor::from(pixels, {kSide, kSide, 3});
}

int label_of(int image) { return image < kImages - kTests ? image % 3 : 1; }
Index place_of(int image) { return 5 + 4 * image; }

// Data with the classes "bar", "disc" and "square", of which "disc" alone is in the test split.
struct Kind {
  std::string name;
  Json config;
  // Gives the classes another order, on disk, or as overrides, which are returned.
  std::function<Names(const TemporaryDirectory&)> reorder;
};

void write_coco(const TemporaryDirectory& directory, const std::vector<int>& ids) {
  for (const bool test : {false, true}) {
    Json file{{"categories", Json::array()}, {"images", Json::array()}, {"annotations", Json::array()}};
    const char* const names[] = {"bar", "disc", "square"};
    for (std::size_t label = 0; label < 3; ++label)
      file["categories"].push_back({{"id", ids[label]}, {"name", names[label]}});
    for (int i = test ? kImages - kTests : 0; i < (test ? kImages : kImages - kTests); ++i) {
      const std::string image = fmt::format("{}.png", i);
      directory.write("boxes/" + image, datasets::png_of(picture(i, label_of(i), place_of(i))));
      file["images"].push_back({{"id", i + 1}, {"file_name", image}, {"width", kSide}, {"height", kSide}});
      file["annotations"].push_back({{"id", i + 1},
                                     {"image_id", i + 1},
                                     {"category_id", ids[static_cast<std::size_t>(label_of(i))]},
                                     {"bbox", {place_of(i), place_of(i), 24, 24}}});
    }
    directory.write(test ? "test.json" : "train.json", file.dump());
  }
}

Json detector(Json data) {
  data.update({{"image_size", kSide}, {"batch_size", 2}});
  return {{"task", "detection"}, {"model", {{"name", "ssd_small"}, {"width", 4}}}, {"data", data}};
}

Kind coco(const TemporaryDirectory& directory) {
  write_coco(directory, {1, 2, 3});
  const auto split = [](const char* file) { return Json{{"annotations", file}, {"images", "boxes"}}; };
  return {"coco",
          detector({{"name", "coco"},
                    {"path", directory.path()},
                    {"train", split("train.json")},
                    {"test", split("test.json")}}),
          [](const TemporaryDirectory& there) {
            write_coco(there, {30, 4, 20});  // disc, square, bar
            return Names();
          }};
}

Kind voc(const TemporaryDirectory& directory) {
  std::string train, test;
  for (int i = 0; i < kImages; ++i) {
    const std::string id = std::to_string(i);
    const char* const names[] = {"bar", "disc", "square"};
    const Index x = place_of(i);
    directory.write("voc/JPEGImages/" + id + ".png", datasets::png_of(picture(i, label_of(i), x)));
    directory.write(
        "voc/Annotations/" + id + ".xml",
        test::voc_xml(test::voc_object(names[label_of(i)], std::to_string(x + 1), std::to_string(x + 1),
                                       std::to_string(x + 24), std::to_string(x + 24)),
                      kSide, kSide));
    (i < kImages - kTests ? train : test) += id + "\n";
  }
  directory.write("voc/ImageSets/Main/train.txt", train);
  directory.write("voc/ImageSets/Main/test.txt", test);
  return {
      "voc",
      detector({{"name", "voc"}, {"path", directory / "voc"}, {"train", {"./train"}}, {"test", {"./test"}}}),
      [](const TemporaryDirectory&) { return Names{R"(data.class_names=["disc","square","bar"])"}; }};
}

// In the files 3, 0 and 9 stand for the classes.
Kind masks(const TemporaryDirectory& directory, bool named) {
  constexpr std::uint8_t values[] = {3, 0, 9};
  for (int i = 0; i < kImages; ++i) {
    std::vector<std::uint8_t> mask(kSide * kSide, 0);
    for (Index p = 0; p < 24 * 24; ++p) {
      const Index row = place_of(i) + p / 24, column = place_of(i) + p % 24;
      mask[static_cast<std::size_t>(row * kSide + column)] = values[label_of(i)];
    }
    const std::string split = i < kImages - kTests ? "set/train/" : "set/test/",
                      name = fmt::format("{}.png", i);
    directory.write(split + "images/" + name, datasets::png_of(picture(i, label_of(i), place_of(i))));
    directory.write(split + "masks/" + name, datasets::png_of(Tensor::from(mask, {kSide, kSide})));
  }
  Json data{{"name", "masks"}, {"path", directory / "set"}, {"values", {3, 0, 9}}, {"batch_size", 2}};
  if (named) data["class_names"] = {"bar", "disc", "square"};
  return {
      named ? "named masks" : "masks by value",
      {{"task", "segmentation"}, {"model", {{"name", "unet"}, {"width", 4}, {"levels", 2}}}, {"data", data}},
      [named](const TemporaryDirectory&) {
        Names overrides{"data.values=[0,9,3]"};
        if (named) overrides.push_back(R"(data.class_names=["disc","square","bar"])");
        return overrides;
      }};
}

std::vector<std::function<Kind(const TemporaryDirectory&)>> kinds() {
  return {coco, voc, [](const TemporaryDirectory& directory) { return masks(directory, true); },
          [](const TemporaryDirectory& directory) { return masks(directory, false); }};
}

struct Judged {
  tasks::Metrics metrics;
  std::map<std::string, std::vector<std::string>>
      by_class;  // name → figures, as text: NaN is equal to itself
};

Judged judged(tasks::Task& task) {
  datasets::Loader loader(task.evaluation_source("test", {}));
  const auto evaluation = train::evaluate(task, loader, true);
  Judged result{.metrics = evaluation->metrics(), .by_class = {}};
  const auto breakdown = evaluation->breakdown();
  REQUIRE(breakdown);
  for (std::size_t c = 0; c < breakdown->names.size(); ++c)
    for (const auto& [name, values] : breakdown->figures)
      result.by_class[breakdown->names[c]].push_back(fmt::format("{} {:.4f}", name, values[c]));
  return result;
}

config::Loaded loaded(const TemporaryDirectory& directory, const Json& given, const Names& overrides = {}) {
  Json config = given;
  config.update({{"optimizer", {{"name", "sgd"}, {"lr", 0.01}}},
                 {"epochs", 2},
                 {"threads", 1},
                 {"tensorboard", false}});
  return config::load(directory.write("config.json", config.dump()), overrides);
}

std::string save(tasks::Task& task, const tasks::Json& description, const std::string& path) {
  models::save_weights(task.model(), path, {{"tandem.data", files::json_text(description)}});
  return path;
}

// The values of a parameter with as many rows as `order`, of which row i goes to order[i].
void move_rows(nn::Module& model, const std::string& name, const std::vector<std::size_t>& order) {
  for (const auto& [path, parameter] : model.parameter_paths()) {
    if (path != name) continue;
    const std::vector<float> before = parameter.value().to_vector<float>();
    const std::size_t width = before.size() / order.size();
    float* const values = parameter.value().data<float>();
    for (std::size_t row = 0; row < order.size(); ++row)
      std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(row * width), width,
                  values + order[row] * width);
    return;
  }
  FAIL("there is no parameter " << name);
}

runs::RunDirectory directory_of(const config::Loaded& loaded) {
  return runs::RunDirectory::create(loaded.config.run_dir, "run",
                                    config::resolved(loaded.config).dump(2) + "\n");
}

}  // namespace

TEST_CASE("weights judge data alike whatever the order of its classes", "[class_order]") {
  for (const auto& kind_in : kinds()) {
    const TemporaryDirectory directory;
    const Kind kind = kind_in(directory);
    CAPTURE(kind.name);
    const config::Loaded before = loaded(directory, kind.config);
    const auto own = config::open_data(before.config, {});
    const auto task = config::make_task(before, own);
    const std::string weights = save(*task, own->description(), directory / "w.safetensors");
    const Judged expected = judged(*task);

    const config::Loaded after = loaded(directory, kind.config, kind.reorder(directory));
    const auto plain = config::open_data(after.config, {});
    CHECK_THAT(user_error_of([&] { plain->require_like(own->description(), "w"); }),
               Contains("w: were trained on these classes in another order"));
    Names notes;
    const auto mapped = runs::open_data(after.config, {}, runs::saved_data(weights), &notes);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], Contains("classes are in another order than in the weights: mapped by ") &&
                             Contains(kind.name == "masks by value" ? "(3, 0, 9)" : "bar, disc, square)"));
    CHECK_NOTHROW(mapped->require_like(own->description(), "w"));
    CHECK(mapped->description() == own->description());
    CHECK(mapped->training_samples() == own->training_samples());
    const auto judge = [&](const tasks::DataPtr& data) {
      const auto other = config::make_task(after, data);
      models::load_weights(other->model(), safetensors::File(weights));
      return judged(*other);
    };
    const Judged found = judge(mapped);
    CHECK(found.metrics == expected.metrics);
    CHECK(found.by_class == expected.by_class);
    CHECK(judge(plain).metrics != expected.metrics);
    // Weights in the data's own order are no reason to move anything, nor are those of other classes.
    CHECK(runs::open_data(after.config, {}, runs::saved_data(save(*task, plain->description(), weights)),
                          &notes)
              ->description() == plain->description());
    tasks::Json renamed = own->description();
    renamed[kind.name == "masks by value" ? "class_values" : "class_names"].back() =
        kind.name == "masks by value" ? tasks::Json(8) : tasks::Json("ring");
    const auto kept =
        runs::open_data(after.config, {}, runs::saved_data(save(*task, renamed, weights)), &notes);
    CHECK(notes.size() == 1);
    CHECK_THAT(
        user_error_of([&] { kept->require_like(renamed, "w"); }),
        Contains("were trained on other classes") &&
            Contains(kind.name == "masks by value" ? "3, 0, 8; masks has: 0, 9, 3" : "bar, disc, ring;"));
  }
}

// Of which no two orders can be had of the same names: the rows of the last layer move with them.
TEST_CASE("images in folders and texts follow the order of weights", "[class_order]") {
  const TemporaryDirectory directory;
  std::string lines;
  const char* const names[] = {"bar", "disc", "square"};
  for (int i = 0; i < 12; ++i) {
    directory.write(fmt::format("set/{}/{}/{}.png", i < 6 ? "train" : "test", names[i % 3], i),
                    datasets::png_of(picture(i, i % 3, 2 * i)));
    lines += fmt::format("{}\tw{} v{} w{}\n", names[i % 3], i % 4, i % 3, i % 5);
  }
  const std::string table = directory.write("texts.tsv", lines);
  const std::vector<std::tuple<std::string, Json, Names>> families{
      {"images",
       {{"model", {{"name", "mlp"}, {"hidden", {8}}}},
        {"data", {{"name", "image_folder"}, {"path", directory / "set"}, {"image_size", 16}}}},
       {"fc2.weight", "fc2.bias"}},
      {"texts",
       {{"task", "text_classification"},
        {"model", {{"name", "text_classifier"}, {"embedding", 6}, {"units", 5}, {"init", 1.0}}},
        {"data", {{"name", "labelled_lines"}, {"train", table}, {"test", table}}}},
       {"classifier.weight", "classifier.bias"}}};
  for (const auto& [family, config, last] : families) {
    CAPTURE(family);
    const config::Loaded given = loaded(directory, config);
    const auto own = config::open_data(given.config, {});
    const auto task = config::make_task(given, own);
    const Judged expected = judged(*task);
    // bar, disc, square → square, bar, disc
    for (const std::string& parameter : last) move_rows(task->model(), parameter, {1, 2, 0});
    tasks::Json description = own->description();
    description[family == "texts" ? "classes" : "class_names"] = {"square", "bar", "disc"};
    const std::string weights = save(*task, description, directory / "w.safetensors");
    CHECK_THAT(user_error_of([&] { own->require_like(description, "w"); }),
               Contains("w: were trained on these classes in another order: square, bar, disc; ") &&
                   Contains(" has: bar, disc, square; the first that differs is number 0, \"square\" there"));

    Names notes;
    const auto mapped = runs::open_data(given.config, {}, runs::saved_data(weights), &notes);
    CHECK(notes ==
          Names{"classes are in another order than in the weights: mapped by name (square, bar, disc)"});
    CHECK(mapped->description() == description);
    // From these weights, and in their order, as init_from starts a run.
    const config::Loaded from = loaded(directory, config, {"init_from.path=" + weights});
    for (const auto& data : {mapped, runs::open_data(from.config, {}), runs::describe_data(from.config)}) {
      const auto other = config::make_task(from, data);
      CHECK(train::initialise_from(from.config, *other).size() == 1);
      const Judged found = judged(*other);
      CHECK(found.by_class == expected.by_class);
      REQUIRE(found.metrics.size() == expected.metrics.size());
      for (std::size_t i = 0; i < found.metrics.size(); ++i)
        CHECK(found.metrics[i].second == Approx(expected.metrics[i].second).epsilon(1e-6));
    }
  }
}

TEST_CASE("a run goes on to the bit with data whose classes have another order now", "[class_order]") {
  const TemporaryDirectory directory;
  const Kind kind = coco(directory);
  const auto named = [&](const std::string& run, Names overrides = {}) {
    overrides.push_back("run_dir=" + (directory / run).string());
    return loaded(directory, kind.config, overrides);
  };
  const auto train = [](const config::Loaded& loaded, const runs::RunDirectory& run,
                        const train::TrainerOptions& options) {
    const auto result = train::Trainer(loaded, options).run(&run, "", train::StopRequest());
    REQUIRE(result.status == train::TrainStatus::completed);
  };
  const config::Loaded loaded_whole = named("whole"), loaded_plain = named("plain"),
                       loaded_cut = named("cut");
  const runs::RunDirectory whole = directory_of(loaded_whole), plain = directory_of(loaded_plain),
                           cut = directory_of(loaded_cut);
  train(loaded_whole, whole, {.quiet = true});
  for (const auto& [loaded, run] : {std::pair(loaded_plain, plain), {loaded_cut, cut}})
    train(loaded, run, {.limit_steps = 3, .quiet = true});
  train(loaded_plain, plain, {.quiet = true, .resume = true});
  kind.reorder(directory);
  CHECK_THAT(user_error_of([&] { train(loaded_cut, cut, {.quiet = true, .resume = true}); }),
             Contains("in another order"));
  train(loaded_cut, cut, {.quiet = true, .resume = true, .weights = runs::weights_with_data(cut)});
  CHECK_THAT(testing::read_text(cut.log()), Contains("classes are in another order than in the weights"));
  const auto same_end = [](const runs::RunDirectory& a, const runs::RunDirectory& b, const char* file) {
    const auto text_in = [&](const runs::RunDirectory& run) {
      return testing::read_text(std::filesystem::path(runs::weights_path(run, "last")).parent_path() / file);
    };
    return text_in(a) == text_in(b);
  };
  CHECK(same_end(cut, whole, "weights.safetensors"));
  for (const char* file : {"weights.safetensors", "state.safetensors"}) CHECK(same_end(cut, plain, file));
  // A new run from these weights keeps their order, too.
  const config::Loaded next = named("next", {"init_from.path=" + whole.path().string(), "epochs=1"});
  const runs::RunDirectory later = directory_of(next);
  train(next, later, {.quiet = true});
  CHECK(runs::saved_data(runs::weights_path(later, "last")) ==
        runs::saved_data(runs::weights_path(whole, "last")));
}
