// Boxes written as COCO instances and in PASCAL VOC format.
#pragma once

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "core/printable.h"
#include "data/boxes/box_corpus.h"
#include "data/image_file.h"
#include "files/json_text.h"
#include "files/write.h"

namespace tandem::datasets::testing {

namespace fs = std::filesystem;

// The number near `guess` with the fewest decimal digits for which `holds` is true; `guess` if there is none
// with at most 17 digits. A difference is thus written without rounding noise: width 38.65 of a box from
// 473.07 to 511.72, not 38.65000000000003.
template <class Holds>
double shortest_decimal(double guess, const Holds& holds) {
  for (int digits = 1; digits <= std::numeric_limits<double>::max_digits10; ++digits) {
    const double rounded = std::strtod(fmt::format("{:.{}g}", guess, digits).c_str(), nullptr);
    if (holds(rounded)) return rounded;
  }
  for (const double towards : {HUGE_VAL, -HUGE_VAL})
    if (const double next = std::nextafter(guess, towards); holds(next)) return next;
  return guess;
}

inline std::string quoted(const std::string& text) { return files::json_text(nlohmann::json(text)); }

inline std::string below(const fs::path& folder, const std::string& file) {
  const fs::path path = fs::path(file).lexically_relative(folder);
  return path.empty() || *path.begin() == ".." ? file : path.string();
}

// The size that gives x2 when added to x1.
inline double extent_of(double x1, double x2) {
  return shortest_decimal(x2 - x1, [&](double size) { return x1 + size == x2; });
}

inline std::string annotation_text(const BoxObject& object, std::int64_t image, const BoxClasses& classes) {
  const Corners& box = object.box;
  return fmt::format(
      R"({{"id": {}, "image_id": {}, "category_id": {}, "bbox": [{}, {}, {}, {}], "area": {}, "iscrowd": {}}})",
      object.id, image, classes.ids.at(static_cast<std::size_t>(object.label)), box.x1, box.y1,
      extent_of(box.x1, box.x2), extent_of(box.y1, box.y2), object.area, object.crowd ? 1 : 0);
}

class JsonList {
 public:
  explicit JsonList(std::string_view key) : text_(fmt::format("\"{}\": [", key)) {}
  void add(const std::string& item) {
    text_ += (any_ ? ",\n" : "\n") + item;
    any_ = true;
  }
  std::string finish() { return std::move(text_) + "\n]"; }

 private:
  std::string text_;
  bool any_ = false;
};

// A JSON object with images, annotations and categories, one item per line. Ids are the corpus's, those of
// categories the files'. bbox is [x1, y1, width, height]; sizes have the fewest digits that restore x2 and y2
// on addition. file_name is relative to `images`, or the full path of an image elsewhere. COCO has no
// difficult objects: their flag is lost.
inline std::string coco_instances(const BoxCorpus& corpus, const fs::path& images) {
  JsonList image_list("images"), annotations("annotations"), categories("categories");
  for (const BoxImage& image : corpus.images) {
    image_list.add(fmt::format(R"({{"id": {}, "file_name": {}, "width": {}, "height": {}}})", image.id,
                               quoted(below(images, image.file)), image.width, image.height));
    for (const BoxObject& object : image.objects)
      annotations.add(annotation_text(object, image.id, corpus.classes));
  }
  if (corpus.classes.own_background)
    categories.add(fmt::format(R"({{"id": 0, "name": {}}})", quoted(*corpus.classes.own_background)));
  for (std::size_t label = 1; label < corpus.classes.names.size(); ++label) {
    if (!corpus.classes.has(label)) continue;
    categories.add(fmt::format(R"({{"id": {}, "name": {}}})", corpus.classes.ids[label],
                               quoted(corpus.classes.names[label])));
  }
  return fmt::format("{{\n{},\n{},\n{}\n}}\n", image_list.finish(), annotations.finish(),
                     categories.finish());
}

// Writes the same to a file. Throws VendorError when it cannot be written.
inline void write_coco(const BoxCorpus& corpus, const fs::path& file, const fs::path& images) {
  files::write_atomically(file.string(), coco_instances(corpus, images));
}

inline void add_text(pugi::xml_node to, const char* name, const std::string& text) {
  to.append_child(name).text().set(text.c_str());
}

// Text of a corner from which a reader subtracts `first`.
inline std::string coordinate(double corner, double first) {
  return fmt::format("{}", shortest_decimal(corner + first, [&](double v) { return v - first == corner; }));
}

inline std::string voc_id(const BoxImage& image) {
  const fs::path name = fs::path(image.name).filename();
  return is_image_file(name) ? name.stem().string() : name.string();
}

// 1, 0 or −1 for a class in a list of one class.
inline int presence(const BoxImage& image, Index label) {
  int found = -1;
  for (const BoxObject& object : image.objects)
    if (object.label == label) found = std::max(found, object.difficult || object.crowd ? 0 : 1);
  return found;
}

inline void require_file_name(const std::string& name, const std::string& what) {
  const bool blank = name.find_first_of(" \t\r\n") != std::string::npos;
  require(!name.empty() && name.find('/') == std::string::npos && !blank, what,
          "\"{}\" is neither valid in a VOC list nor as a file name: it is empty, or has blanks or a /",
          shortened(printable(name), 80));
}

// Annotation of one image. bndbox is [x1 + 1, y1 + 1, x2, y2], or the corners if `one_based` is false, in the
// fewest digits that restore the corners. Crowds become difficult, which the metric also ignores. The format
// has no areas and ids.
inline std::string voc_annotation(const BoxImage& image, const BoxClasses& classes, bool one_based = true) {
  pugi::xml_document document;
  pugi::xml_node annotation = document.append_child("annotation");
  add_text(annotation, "filename", fs::path(image.file).filename().string());
  pugi::xml_node size = annotation.append_child("size");
  add_text(size, "width", std::to_string(image.width));
  add_text(size, "height", std::to_string(image.height));
  add_text(size, "depth", "3");
  add_text(annotation, "segmented", "0");
  const double first = one_based ? 1.0 : 0.0;
  for (const BoxObject& object : image.objects) {
    pugi::xml_node node = annotation.append_child("object");
    add_text(node, "name", classes.names.at(static_cast<std::size_t>(object.label)));
    add_text(node, "pose", "Unspecified");
    add_text(node, "truncated", "0");
    add_text(node, "difficult", object.difficult || object.crowd ? "1" : "0");
    pugi::xml_node box = node.append_child("bndbox");
    add_text(box, "xmin", coordinate(object.box.x1, first));
    add_text(box, "ymin", coordinate(object.box.y1, first));
    add_text(box, "xmax", coordinate(object.box.x2, 0.0));
    add_text(box, "ymax", coordinate(object.box.y2, 0.0));
  }
  std::ostringstream text;
  document.save(text, "\t", pugi::format_default | pugi::format_no_declaration);
  return text.str();
}

// Writes FOLDER/Annotations/ID.xml for each image, the list FOLDER/ImageSets/Main/LIST.txt, and per class
// CLASS_LIST.txt with 1, 0 (only as difficult objects) or −1 for each image. ID is the image's name without
// folders and extension. Does not copy images, which read_voc expects in FOLDER/JPEGImages. Throws UserError
// that names two images of one ID, or an ID or class that is no valid file name; VendorError when a file
// cannot be written.
inline void write_voc(const BoxCorpus& corpus, const fs::path& folder, const std::string& list,
                      bool one_based = true) {
  const fs::path annotations = folder / "Annotations", lists = folder / "ImageSets/Main";
  std::unordered_map<std::string, std::string> names;
  std::string all;
  std::vector<std::string> by_class(corpus.classes.names.size());
  for (const BoxImage& image : corpus.images) {
    const std::string id = voc_id(image);
    require_file_name(id, image.file);
    const auto [known, fresh] = names.emplace(id, image.name);
    require(fresh, folder.string(), "images {} and {} would both be {}.xml", known->second, image.name, id);
    all += id + "\n";
    for (std::size_t label = 1; label < by_class.size(); ++label)
      by_class[label] += fmt::format("{} {:2}\n", id, presence(image, static_cast<Index>(label)));
  }
  for (std::size_t label = 1; label < by_class.size(); ++label)
    if (corpus.classes.has(label))
      require_file_name(corpus.classes.names[label], fmt::format("class {}", label));
  fs::create_directories(annotations);
  fs::create_directories(lists);
  for (const BoxImage& image : corpus.images)
    files::write_atomically((annotations / (voc_id(image) + ".xml")).string(),
                            voc_annotation(image, corpus.classes, one_based));
  files::write_atomically((lists / (list + ".txt")).string(), all);
  for (std::size_t label = 1; label < by_class.size(); ++label) {
    if (!corpus.classes.has(label)) continue;
    files::write_atomically((lists / fmt::format("{}_{}.txt", corpus.classes.names[label], list)).string(),
                            by_class[label]);
  }
}

}  // namespace tandem::datasets::testing
