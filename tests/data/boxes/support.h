// Files of boxes for tests, and corpora as comparable text.
#pragma once

#include <fmt/core.h>

#include <string>
#include <vector>

#include "data/boxes/box_corpus.h"
#include "tests/data/files.h"
#include "tests/support/errors.h"

namespace tandem::test {

using datasets::testing::TempFolder;

inline std::string write_text(const std::filesystem::path& path, const std::string& text) {
  datasets::testing::write_file(path, {text.begin(), text.end()});
  return path.string();
}

inline std::string text_in(const std::filesystem::path& path) {
  const datasets::testing::Bytes bytes = datasets::testing::read_bytes(path);
  return {bytes.begin(), bytes.end()};
}

// <object> of VOC; `more` stands before the box.
inline std::string voc_object(const std::string& name, const std::string& xmin, const std::string& ymin,
                              const std::string& xmax, const std::string& ymax,
                              const std::string& more = "") {
  return fmt::format(
      "<object><name>{}</name>{}<bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox>"
      "</object>",
      name, more, xmin, ymin, xmax, ymax);
}

inline std::string voc_xml(const std::string& objects, int width = 100, int height = 80) {
  return fmt::format(
      "<annotation><filename>x.jpg</filename><size><width>{}</width><height>{}</height><depth>3</depth></"
      "size>"
      "{}</annotation>",
      width, height, objects);
}

// A file of COCO's instances: an image 1 of 100x80, categories 1 "cat" and 3 "dog", and these annotations.
inline std::string coco_json(const std::string& annotations) {
  return fmt::format(
      R"({{"images": [{{"id": 1, "file_name": "a.jpg", "width": 100, "height": 80}}], "annotations": [{}],)"
      R"("categories": [{{"id": 1, "name": "cat"}}, {{"id": 3, "name": "dog"}}]}})",
      annotations);
}

inline std::string coco_annotation(int id, const std::string& bbox, const std::string& more = "") {
  return fmt::format(R"({{"id": {}, "image_id": 1, "category_id": 3, "bbox": {}{}}})", id, bbox, more);
}

// "label:[x1, y1, x2, y2]" of each object, "!" behind a difficult one and "*" behind a crowd.
inline std::string objects_text(const datasets::BoxImage& image) {
  std::string text;
  for (const datasets::BoxObject& object : image.objects)
    text += fmt::format("{}{}:[{}, {}, {}, {}]{}{}", text.empty() ? "" : " ", object.label, object.box.x1,
                        object.box.y1, object.box.x2, object.box.y2, object.difficult ? "!" : "",
                        object.crowd ? "*" : "");
  return text;
}

}  // namespace tandem::test
