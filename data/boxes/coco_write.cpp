#include "data/boxes/coco_write.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "data/boxes/decimals.h"
#include "files/json_text.h"
#include "files/write.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

std::string quoted(const std::string& text) { return files::json_text(nlohmann::json(text)); }

std::string below(const fs::path& folder, const std::string& file) {
  const fs::path path = fs::path(file).lexically_relative(folder);
  return path.empty() || *path.begin() == ".." ? file : path.string();
}

// The size that gives x2 when added to x1.
double extent_of(double x1, double x2) {
  return shortest_decimal(x2 - x1, [&](double size) { return x1 + size == x2; });
}

std::string annotation_text(const BoxObject& object, std::int64_t image, const BoxClasses& classes) {
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

}  // namespace

std::string coco_instances(const BoxCorpus& corpus, const fs::path& images) {
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

void write_coco(const BoxCorpus& corpus, const fs::path& file, const fs::path& images) {
  files::write_atomically(file.string(), coco_instances(corpus, images));
}

}  // namespace tandem::datasets
