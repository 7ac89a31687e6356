// The JSON of COCO's instances, as a stream.
#include "data/boxes/coco_file.h"

#include <istream>
#include <iterator>

#include "tests/data/boxes/support.h"

using namespace tandem;
using namespace tandem::test;

using datasets::BoundedInput;
using datasets::CocoFile;

namespace {

class JsonFile {
 public:
  CocoFile read(const std::string& text, std::size_t longest = BoundedInput::kLongest) const {
    return datasets::read_coco_file(write_text(folder_ / "i.json", text), longest);
  }
  // A file with one annotation.
  CocoFile with(const std::string& annotation) const { return read(coco_json(annotation)); }

 private:
  TempFolder folder_;
};

std::string with_image(const std::string& image) {
  return fmt::format(R"({{"images": [{}], "annotations": [], "categories": []}})", image);
}

}  // namespace

TEST_CASE("segmentations of every form, unknown keys and nulls are passed over", "[boxes]") {
  const JsonFile file;
  const CocoFile read = file.with(
      coco_annotation(1, "[1, 2.5, 3e0, 4]", R"(, "segmentation": [[1, 2, 3], [4.5, -1]], "area": 5.5)") +
      "," +
      coco_annotation(2, "[0,0,1,1]",
                      R"(, "segmentation": {"counts": [3, 2, 7], "size": [3, 4]}, "iscrowd": 1)") +
      "," +
      coco_annotation(3, "[0,0,1,1]",
                      R"(, "segmentation": {"counts": "321010", "size": [3, 4]}, "iscrowd": true)") +
      "," +
      coco_annotation(
          4, "[0,0,1,1]",
          R"(, "x": {"bbox": [9], "id": [{"area": {}}]}, "y": [[{"image_id": null}]], "area": null, "iscrowd": 0)"));
  REQUIRE(read.annotations.size() == 4);
  CHECK(read.annotations[0].bbox == std::array<double, 4>{1, 2.5, 3, 4});
  CHECK(read.annotations[0].area == 5.5);
  CHECK_FALSE(read.annotations[0].crowd);
  CHECK(read.annotations[1].crowd);
  CHECK(read.annotations[2].crowd);
  CHECK(read.annotations[3].id == 4);
  CHECK_FALSE(read.annotations[3].area.has_value());
  CHECK_FALSE(read.annotations[3].crowd);
  CHECK(read.images[0].file_name == "a.jpg");
  CHECK(read.categories[1].name == "dog");
}

TEST_CASE("sections stand in any order, among others; ids may be written as numbers", "[boxes]") {
  const JsonFile file;
  const CocoFile read = file.read(
      R"({"info": {"images": [5]}, "annotations": [{"id": 7.0, "image_id": -3, "category_id": 2, "bbox": [0,0,1,1]}],)"
      R"( "licenses": [[[]], {}], "categories": [{"supercategory": "x", "id": 2, "name": "c"}], "images": [], "z": 1})");
  CHECK(read.annotations[0].id == 7);
  CHECK(read.annotations[0].image == -3);
  CHECK(read.categories[0].id == 2);
  CHECK(read.images.empty());
}

TEST_CASE("errors of an item name its place and value", "[boxes]") {
  const JsonFile file;
  const auto fails = [&](const std::string& annotation, const std::string& part) {
    CHECK_FAILS(UserError, file.with(coco_annotation(8, "[1,2,3,4]") + "," + annotation),
                "i.json] annotations, item 1" + part);
  };
  fails(coco_annotation(9, "[1,2,3]"), " (id 9) has bbox 3 numbers, expected x, y, width and height");
  fails(coco_annotation(9, "[1,2,3,4,5]"), " (id 9) has bbox 5 numbers");
  fails(coco_annotation(9, "[]"), " (id 9) has bbox 0 numbers");
  fails(coco_annotation(9, "[1,2,null,4]"), " (id 9) has bbox null among its numbers");
  fails(coco_annotation(9, "[1,2,\"3\",4]"), " (id 9) has bbox a text among its numbers");
  fails(coco_annotation(9, "[[1,2,3,4]]"), " (id 9) has bbox a list among its numbers");
  fails(coco_annotation(9, "7"), " (id 9) has bbox 7, expected a list");
  fails(coco_annotation(9, "{}"), " (id 9) has bbox an object");
  fails(coco_annotation(9, "null"), " (id 9) has no bbox");
  fails(coco_annotation(9, "[1,2,3,4]", R"(, "bbox": [1,2,3,4])"), " (id 9) has bbox twice");
  fails(coco_annotation(9, "[1,2,3,4]", R"(, "area": "5")"), " (id 9) has area \"5\", expected a number");
  fails(coco_annotation(9, "[1,2,3,4]", R"(, "area": [5])"), " (id 9) has area a list");
  fails(coco_annotation(9, "[1,2,3,4]", R"(, "area": true)"), " (id 9) has area true");
  fails(coco_annotation(9, "[1,2,3,4]", R"(, "iscrowd": 2)"), " (id 9) has iscrowd 2, expected 0 or 1");
  fails(R"({"id": 1.5})", " has id 1.5, expected an integer");
  fails(R"({"id": 18446744073709551615})", " has id 1.8446744073709552e+19, expected an integer");
  fails(R"({"id": "x"})", " has id \"x\", expected a number");
  fails(R"({"image_id": 1, "category_id": 1, "bbox": [1,2,3,4]})", " has no id");
  fails(R"({"id": 1, "category_id": 1, "bbox": [1,2,3,4]})", " (id 1) has no image_id");
  fails(R"({"id": 1, "image_id": 1, "bbox": [1,2,3,4]})", " (id 1) has no category_id");

  const auto image = [&](const std::string& text, const std::string& part) {
    CHECK_FAILS(UserError, file.read(with_image(text)), "i.json] images, item 0" + part);
  };
  image(R"({"id": 1, "file_name": "a", "width": 5})", " (id 1) has no height");
  image(R"({"id": 1, "file_name": "a", "height": 5})", " (id 1) has no width");
  image(R"({"id": 1, "width": 5, "height": 5})", " (id 1) has no file_name");
  image(R"({"id": 1, "file_name": ""})", " (id 1) has file_name an empty text");
  image(R"({"id": 1, "file_name": 5})", " (id 1) has file_name 5, expected a text");
  image(R"({"id": 1, "width": 0})", " (id 1) has width 0, expected a number of pixels");
  image(R"({"id": 1, "height": 2.5})", " (id 1) has height 2.5, expected a number of pixels");
  image(R"({"id": 1, "file_name": "a", "height": 100000, "width": 100000})",
        " (id 1) is of 100000x100000 pixels");
}

TEST_CASE("files other than instances are refused", "[boxes]") {
  const JsonFile file;
  const auto fails = [&](const std::string& text, const std::string& part) {
    CHECK_FAILS(UserError, file.read(text), "i.json] " + part);
  };
  fails("", "is no JSON at byte 1: ");
  fails("{", "is no JSON at byte ");
  fails(coco_json("") + "x", "is no JSON at byte ");
  fails(coco_json(coco_annotation(1, "[1e999,0,1,1]")), "is no JSON at byte ");
  fails(coco_json("").replace(3, 1, 1, '\0'), "is no JSON: byte 3 is NUL");
  fails(coco_json("") + std::string(1, '\0') + "x", "is no JSON: byte ");
  fails("5", "is a number; COCO instances are an object");
  fails(R"([{"image_id": 1}])", "is a list, like results of a detector");
  fails("{}", "has no \"images\"; ");
  fails(R"({"images": [], "categories": []})", "has no \"annotations\"; ");
  fails(R"({"images": [], "annotations": []})", "has no \"categories\"; ");
  fails(R"({"images": {}})", "has an object as its images, expected a list");
  fails(R"({"images": null})", "has null as its images, expected a list");
  fails(R"({"annotations": [{"id": 1}]})", "annotations, item 0 (id 1) has no image_id");
  fails(R"({"images": [[]]})", "has a list as item 0 of its images");
  fails(R"({"images": [5]})", "has a number as item 0 of its images");
  fails(R"({"images": [], "images": []})", "has \"images\" twice");
  fails("{\"x\": " + std::string(70, '['), "nests deeper than 64");
  CHECK_FAILS(UserError, datasets::read_coco_file("no/such.json"), "there is no such file");
}

TEST_CASE("reads are limited to a chunk, texts to the bound", "[boxes]") {
  const JsonFile file;
  const std::size_t chunk = BoundedInput::kChunk;
  std::string numbers = "1";
  while (numbers.size() < 5 * chunk) numbers += ",1";
  // A list of any length passes, as its numbers are reported one by one.
  CHECK(
      file.read(coco_json(coco_annotation(1, "[0,0,1,1]", ", \"segmentation\": [[" + numbers + "]]")), chunk)
          .annotations.size() == 1);
  const std::string text(3 * chunk, '1');
  CHECK_FAILS(UserError,
              file.read(coco_json(coco_annotation(1, "[0,0,1,1]",
                                                  ", \"segmentation\": {\"counts\": \"" + text + "\"}")),
                        chunk),
              "i.json] has a text or number of more than 65536 bytes before byte ");
  CHECK(file.read(coco_json(
                      coco_annotation(1, "[0,0,1,1]", ", \"segmentation\": {\"counts\": \"" + text + "\"}")))
            .annotations.size() == 1);
}

TEST_CASE("a bounded input gives the bytes of its file", "[boxes]") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i);
  const files::InputFile file(write_text(folder / "f", text));
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{100000}}) {
    BoundedInput input(file, 1 << 20, chunk);
    std::istream stream(&input);
    CHECK(std::string(std::istreambuf_iterator<char>(stream), {}) == text);
  }
  BoundedInput input(file, 100, 10);
  std::istream stream(&input);
  std::string read(150, ' ');
  CHECK_FAILS(UserError, read.assign(std::istreambuf_iterator<char>(stream), {}),
              "has a text or number of more than 100 bytes before byte 110");
}
