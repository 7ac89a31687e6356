// Boxes written as files and read again.
#include "core/random.h"
#include "data/boxes/coco.h"
#include "data/boxes/voc.h"
#include "tests/data/boxes/support.h"
#include "tests/support/box_files.h"

using namespace tandem;
using namespace tandem::test;

using datasets::BoxCorpus;
using datasets::BoxImage;
using datasets::read_coco;
using datasets::read_voc;
using datasets::testing::coco_instances;
using datasets::testing::shortest_decimal;
using datasets::testing::voc_annotation;
using datasets::testing::write_coco;
using datasets::testing::write_voc;

namespace {

BoxCorpus corpus_below(const std::filesystem::path& images) {
  BoxCorpus corpus{.where = "made", .classes = {}, .images = {}, .tallies = {}};
  corpus.classes.add("a \"b\" & <c>", 3);
  corpus.classes.add("potted plant", 90);
  const auto image = [&](std::int64_t id, const std::string& name, std::vector<datasets::BoxObject> objects) {
    corpus.images.push_back({.file = (images / name).string(),
                             .name = name,
                             .id = id,
                             .width = 640,
                             .height = 480,
                             .objects = std::move(objects)});
  };
  image(4, "deep/\xC3\xA9.jpg",
        {{.box = {473.07, 0.1, 473.07 + 38.65, 0.1 + 32}, .label = 2, .id = 11, .area = 12.5},
         {.box = {0, 0, 640, 480}, .label = 1, .id = 7, .area = 0, .crowd = true}});
  image(8, "empty.png", {});
  image(9, "2.1.jpg",
        {{.box = {45.70000076293945, 1, 50, 2}, .label = 2, .id = 12, .area = 4.3, .difficult = true}});
  return corpus;
}

// Boxes at random places, at FP32's and at two decimals.
BoxCorpus drawn(const std::filesystem::path& images) {
  BoxCorpus corpus{.where = "made", .classes = {}, .images = {}, .tallies = {}};
  corpus.classes.add("x", 1);
  RandomStream random({.seed = 6, .purpose = RandomPurpose::shuffle, .step = 0});
  const auto at = [&](double most, int digits) {
    const double value = most * random.below(1U << 20) / (1U << 20);
    return digits == 2 ? std::floor(value * 100) / 100 : static_cast<double>(static_cast<float>(value));
  };
  corpus.images.push_back(
      {.file = (images / "i.jpg").string(), .name = "i.jpg", .id = 1, .width = 640, .height = 480});
  for (int i = 0; i < 2000; ++i) {
    const int digits = i % 2 == 0 ? 2 : 7;
    const double x = at(600, digits), y = at(400, digits);
    corpus.images[0].objects.push_back({.box = {x, y, x + 1 + at(30, digits), y + 1 + at(60, digits)},
                                        .label = 1,
                                        .id = i + 1,
                                        .area = at(1e4, digits)});
  }
  return corpus;
}

}  // namespace

TEST_CASE("COCO's file says all that a corpus has but difficulty, to the last bit", "[boxes]") {
  const TempFolder folder;
  for (BoxCorpus corpus : {corpus_below(folder / "images"), drawn(folder / "images")}) {
    write_coco(corpus, folder / "out.json", folder / "images");
    const BoxCorpus read = read_coco(folder / "out.json", folder / "images");
    for (BoxImage& image : corpus.images)
      for (datasets::BoxObject& object : image.objects) object.difficult = false;
    CHECK(read.images == corpus.images);
    CHECK(read.classes == corpus.classes);
    CHECK(read.tallies.clipped.count == 0);
  }
}

TEST_CASE("COCO's file has short numbers, paths below the folder, and the ids of the categories", "[boxes]") {
  const TempFolder folder;
  BoxCorpus corpus = corpus_below(folder / "images");
  corpus.classes.own_background = "_background_";
  const std::string text = coco_instances(corpus, folder / "images");
  CHECK(
      text.find(
          R"({"id": 11, "image_id": 4, "category_id": 90, "bbox": [473.07, 0.1, 38.65, 32], "area": 12.5, "iscrowd": 0})") !=
      std::string::npos);
  CHECK(text.find("\"file_name\": \"deep/\xC3\xA9.jpg\"") != std::string::npos);
  CHECK(text.find(R"({"id": 3, "name": "a \"b\" & <c>"})") != std::string::npos);
  CHECK(text.find(R"({"id": 0, "name": "_background_"})") != std::string::npos);
  CHECK(coco_instances(corpus, folder / "other").find((folder / "images/deep").string()) !=
        std::string::npos);
  const BoxCorpus none{.where = "none", .classes = {}, .images = {}, .tallies = {}};
  CHECK(coco_instances(none, "x") ==
        "{\n\"images\": [\n],\n\"annotations\": [\n],\n\"categories\": [\n]\n}\n");
}

TEST_CASE("VOC's files give boxes, classes and difficulty back", "[boxes]") {
  const TempFolder folder;
  for (const bool one_based : {true, false}) {
    BoxCorpus corpus = drawn(folder / "JPEGImages");
    write_voc(corpus, folder.path(), "train", one_based);
    const BoxCorpus read = read_voc(folder.path(), {"train"}, one_based);
    REQUIRE(read.images.size() == 1);
    REQUIRE(read.images[0].objects.size() == corpus.images[0].objects.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < read.images[0].objects.size(); ++i) {
      const auto &got = read.images[0].objects[i].box, &want = corpus.images[0].objects[i].box;
      CHECK(got.x2 == want.x2);
      CHECK(got.y2 == want.y2);
      worst = std::max({worst, std::abs(got.x1 - want.x1), std::abs(got.y1 - want.y1)});
    }
    CHECK(worst <= (one_based ? 1e-13 : 0.0));
    // What was read is written as it was, and read the same.
    const std::string first = text_in(folder / "Annotations/i.xml");
    write_voc(read, folder.path(), "train", one_based);
    CHECK(text_in(folder / "Annotations/i.xml") == first);
    CHECK(read_voc(folder.path(), {"train"}, one_based).images == read.images);
  }
}

TEST_CASE("VOC's lists say of each image which classes it has", "[boxes]") {
  const TempFolder folder;
  BoxCorpus corpus = corpus_below(folder / "JPEGImages");
  corpus.classes.names = {"background", "crate", "plant"};
  write_voc(corpus, folder.path(), "val");
  const std::filesystem::path lists = folder / "ImageSets/Main";
  CHECK(text_in(lists / "val.txt") == "\xC3\xA9\nempty\n2.1\n");
  CHECK(text_in(lists / "plant_val.txt") == "\xC3\xA9  1\nempty -1\n2.1  0\n");
  CHECK(text_in(lists / "crate_val.txt") == "\xC3\xA9  0\nempty -1\n2.1 -1\n");
  const BoxCorpus read = read_voc(folder.path(), {"val"}, true);
  REQUIRE(read.images.size() == 3);
  CHECK(objects_text(read.images[0]) ==
        "2:[473.07, 0.10000000000000009, 511.71999999999997, 32.1] 1:[0, 0, 640, 480]!");
  CHECK(objects_text(read.images[2]) == "2:[45.70000076293945, 1, 50, 2]!");
  CHECK(read.images[0].width == 640);
  CHECK(read.images[0].height == 480);
  const BoxCorpus plants = read_voc(folder.path(), {"plant_val"}, true);
  CHECK(plants.images.size() == 2);
}

TEST_CASE("an annotation of VOC by its text", "[boxes]") {
  BoxCorpus corpus = corpus_below("images");
  corpus.classes.names[2] = "a&b";
  CHECK(voc_annotation(corpus.images[2], corpus.classes) ==
        "<annotation>\n\t<filename>2.1.jpg</filename>\n\t<size>\n\t\t<width>640</width>\n\t\t<height>480</"
        "height>\n"
        "\t\t<depth>3</depth>\n\t</size>\n\t<segmented>0</segmented>\n\t<object>\n\t\t<name>a&amp;b</name>\n"
        "\t\t<pose>Unspecified</pose>\n\t\t<truncated>0</truncated>\n\t\t<difficult>1</"
        "difficult>\n\t\t<bndbox>\n"
        "\t\t\t<xmin>46.70000076293945</xmin>\n\t\t\t<ymin>2</ymin>\n\t\t\t<xmax>50</xmax>\n\t\t\t<ymax>2</"
        "ymax>\n"
        "\t\t</bndbox>\n\t</object>\n</annotation>\n");
}

TEST_CASE("names invalid in VOC's files are refused before any is written", "[boxes]") {
  const TempFolder folder;
  const auto refused = [&](const auto& change, const std::string& part) {
    BoxCorpus corpus = corpus_below("images");
    corpus.classes.names = {"background", "crate", "plant"};
    change(corpus);
    CHECK_FAILS(UserError, write_voc(corpus, folder / "out", "x"), part);
    CHECK_FALSE(std::filesystem::exists(folder / "out"));
  };
  refused([](BoxCorpus& c) { c.images[1].name = "b/2.1.png"; },
          "images b/2.1.png and 2.1.jpg would both be 2.1.xml");
  refused([](BoxCorpus& c) { c.images[1].name = "a b.png"; },
          "[images/empty.png] \"a b\" is neither valid in a VOC list");
  refused([](BoxCorpus& c) { c.classes.names[2] = "potted plant"; },
          "[class 2] \"potted plant\" is neither valid in");
  refused([](BoxCorpus& c) { c.classes.names[1] = "a/b"; },
          "[class 1] \"a/b\" is neither valid in a VOC list");
}

TEST_CASE("the shortest decimal of which something holds", "[boxes]") {
  const auto width = [](double x1, double x2) {
    return shortest_decimal(x2 - x1, [&](double w) { return x1 + w == x2; });
  };
  CHECK(width(473.07, 473.07 + 38.65) == 38.65);
  CHECK(width(0, 640) == 640);
  CHECK(width(0.1, 0.1 + 0.2) == 0.2);
  CHECK(shortest_decimal(1.0 / 3, [](double) { return false; }) == 1.0 / 3);
  CHECK(shortest_decimal(1.0, [](double v) { return v > 1.0; }) == std::nextafter(1.0, 2.0));
}
