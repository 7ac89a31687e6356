#include "data/boxes/voc_write.h"

#include <fmt/core.h>

#include <pugixml.hpp>
#include <sstream>
#include <unordered_map>

#include "core/error.h"
#include "core/printable.h"
#include "data/boxes/decimals.h"
#include "data/image_file.h"
#include "files/write.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

void add(pugi::xml_node to, const char* name, const std::string& text) {
  to.append_child(name).text().set(text.c_str());
}

// Text of a corner from which a reader subtracts `first`.
std::string coordinate(double corner, double first) {
  return fmt::format("{}", shortest_decimal(corner + first, [&](double v) { return v - first == corner; }));
}

std::string voc_id(const BoxImage& image) {
  const fs::path name = fs::path(image.name).filename();
  return is_image_file(name) ? name.stem().string() : name.string();
}

// 1, 0 or −1 for a class in a list of one class.
int presence(const BoxImage& image, Index label) {
  int found = -1;
  for (const BoxObject& object : image.objects)
    if (object.label == label) found = std::max(found, object.difficult || object.crowd ? 0 : 1);
  return found;
}

void require_file_name(const std::string& name, const std::string& what) {
  const bool blank = name.find_first_of(" \t\r\n") != std::string::npos;
  require(!name.empty() && name.find('/') == std::string::npos && !blank, what,
          "\"{}\" is neither valid in a VOC list nor as a file name: it is empty, or has blanks or a /",
          shortened(printable(name), 80));
}

}  // namespace

std::string voc_annotation(const BoxImage& image, const BoxClasses& classes, bool one_based) {
  pugi::xml_document document;
  pugi::xml_node annotation = document.append_child("annotation");
  add(annotation, "filename", fs::path(image.file).filename().string());
  pugi::xml_node size = annotation.append_child("size");
  add(size, "width", std::to_string(image.width));
  add(size, "height", std::to_string(image.height));
  add(size, "depth", "3");
  add(annotation, "segmented", "0");
  const double first = one_based ? 1.0 : 0.0;
  for (const BoxObject& object : image.objects) {
    pugi::xml_node node = annotation.append_child("object");
    add(node, "name", classes.names.at(static_cast<std::size_t>(object.label)));
    add(node, "pose", "Unspecified");
    add(node, "truncated", "0");
    add(node, "difficult", object.difficult || object.crowd ? "1" : "0");
    pugi::xml_node box = node.append_child("bndbox");
    add(box, "xmin", coordinate(object.box.x1, first));
    add(box, "ymin", coordinate(object.box.y1, first));
    add(box, "xmax", coordinate(object.box.x2, 0.0));
    add(box, "ymax", coordinate(object.box.y2, 0.0));
  }
  std::ostringstream text;
  document.save(text, "\t", pugi::format_default | pugi::format_no_declaration);
  return text.str();
}

void write_voc(const BoxCorpus& corpus, const fs::path& folder, const std::string& list, bool one_based) {
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

}  // namespace tandem::datasets
