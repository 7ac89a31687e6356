#include "data/boxes/voc_annotation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <pugixml.hpp>

#include "core/error.h"
#include "core/printable.h"
#include "data/limits.h"

namespace tandem::datasets {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Text of the child of that name, if there is one.
std::optional<std::string_view> text_below(const pugi::xml_node& node, const char* name) {
  const pugi::xml_node child = node.child(name);
  if (!child) return {};
  return trimmed(child.text().get());
}

class AnnotationReader {
 public:
  explicit AnnotationReader(const std::string& where) : where_(where) {}

  VocAnnotation read(const pugi::xml_node& annotation) {
    VocAnnotation read;
    const pugi::xml_node size = annotation.child("size");
    require(!size.empty(), where_, "has no <size> of its image");
    read.width = extent(size, "width");
    read.height = extent(size, "height");
    require(read.width <= kMaxPixels / read.height, where_, "is of an image of {}x{} pixels, at most {}",
            read.width, read.height, kMaxPixels);
    for (const pugi::xml_node& node : annotation.children("object")) {
      which_ = fmt::format("object {}", read.objects.size() + 1);
      read.objects.push_back(object(node));
    }
    return read;
  }

 private:
  VocObject object(const pugi::xml_node& node) {
    VocObject object;
    object.name = text_below(node, "name").value_or("");
    require(!object.name.empty(), where_, "{} has no <name>", which_);
    which_ += fmt::format(" ({})", shortened(printable(object.name), 80));
    const pugi::xml_node box = node.child("bndbox");
    require(!box.empty(), where_, "{} has no <bndbox>", which_);
    object.xmin = number(box, "xmin");
    object.ymin = number(box, "ymin");
    object.xmax = number(box, "xmax");
    object.ymax = number(box, "ymax");
    const std::string_view difficult = text_below(node, "difficult").value_or("");
    require(difficult.empty() || difficult == "0" || difficult == "1", where_,
            "{} has <difficult> \"{}\", expected 0 or 1", which_, shortened(printable(difficult), 40));
    object.difficult = difficult == "1";
    return object;
  }
  double number(const pugi::xml_node& node, const char* name) {
    const std::string_view text = text_below(node, name).value_or("");
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    require(error == std::errc() && end == text.data() + text.size(), where_,
            "{} has <{}> \"{}\", expected a number", which_, name, shortened(printable(text), 40));
    return value;
  }
  Index extent(const pugi::xml_node& size, const char* name) {
    const double value = number(size, name);
    require(value >= 1 && value <= static_cast<double>(kMaxPixels) && value == std::floor(value), where_,
            "is of an image whose {} is {}, expected a number of pixels", name, value);
    return static_cast<Index>(value);
  }

  const std::string& where_;
  std::string which_ = "<size>";
};

}  // namespace

VocAnnotation parse_voc_annotation(std::string_view xml, const std::string& where) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  if (!parsed) {
    const auto offset =
        std::min(static_cast<std::size_t>(std::max(parsed.offset, std::ptrdiff_t{0})), xml.size());
    const auto line = 1 + std::ranges::count(xml.substr(0, offset), '\n');
    throw UserError(fmt::format("{}:{}", where, line), fmt::format("is no XML: {}", parsed.description()));
  }
  const pugi::xml_node annotation = document.child("annotation");
  require(!annotation.empty(), where, "is no VOC annotation: it begins with <{}>, expected <annotation>",
          shortened(printable(document.document_element().name()), 80));
  return AnnotationReader(where).read(annotation);
}

}  // namespace tandem::datasets
