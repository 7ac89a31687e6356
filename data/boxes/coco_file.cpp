#include "data/boxes/coco_file.h"

#include <cmath>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/printable.h"
#include "data/boxes/coco_items.h"
#include "files/json_text.h"

namespace tandem::datasets {

namespace {

using CocoJson = nlohmann::json;

constexpr int kDeepest = 64;
constexpr double kExactIntegers = 9007199254740992.0;  // 2^53
constexpr CocoSection kSections[] = {CocoSection::images, CocoSection::annotations, CocoSection::categories};

// Depth of nesting: 1 in the file's object, 2 in the list of a section, 3 in an item, 4 in the list of a
// bbox.
class CocoHandler final : public nlohmann::json_sax<CocoJson> {
 public:
  CocoHandler(const std::string& where, BoundedInput& input) : where_(where), input_(input), items_(where) {}

  CocoFile take() {
    for (const CocoSection section : kSections)
      require(sections_.contains(section), where_,
              "has no \"{}\"; COCO instances are an object with images, annotations and categories",
              name_of(section));
    return items_.take();
  }

  bool null() override {
    scalar("null");
    return true;
  }
  bool boolean(bool value) override {
    if (scalar("a boolean")) items_.boolean(value);
    return true;
  }
  bool number_integer(CocoJson::number_integer_t value) override {
    return number(static_cast<double>(value), value);
  }
  bool number_unsigned(CocoJson::number_unsigned_t value) override {
    const bool fits = value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return number(static_cast<double>(value),
                  fits ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt);
  }
  // Ids may be written as 17.0.
  bool number_float(CocoJson::number_float_t value, const CocoJson::string_t&) override {
    const bool whole = value == std::floor(value) && std::abs(value) <= kExactIntegers;
    return number(value, whole ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt);
  }
  bool string(CocoJson::string_t& value) override {
    if (scalar("a text")) items_.text(std::move(value));
    return true;
  }
  bool binary(CocoJson::binary_t&) override { return false; }  // does not occur in JSON

  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return open(true); }
  bool key(CocoJson::string_t& name) override {
    input_.reported();
    if (depth_ == 1) {
      section_ = CocoSection::none;
      for (const CocoSection section : kSections)
        if (name == name_of(section)) section_ = section;
      require(section_ == CocoSection::none || sections_.insert(section_).second, where_, "has \"{}\" twice",
              name);
    } else if (depth_ == 3 && section_ != CocoSection::none) {
      items_.key(name);
    }
    return true;
  }
  bool end_object() override {
    if (depth_ == 3 && section_ != CocoSection::none) {
      items_.finish();
      ++item_;
    }
    return close();
  }
  bool end_array() override {
    if (in_box()) items_.close_box();
    return close();
  }
  bool parse_error(std::size_t position, const std::string&, const CocoJson::exception& error) override {
    throw UserError(where_, fmt::format("is no JSON at byte {}: {}", position,
                                        shortened(printable(files::json_reason(error)), 300)));
  }

 private:
  bool in_box() const { return depth_ == 4 && section_ == CocoSection::annotations && items_.in_box(); }
  // True for the value of a key of an item.
  bool scalar(std::string_view what) {
    input_.reported();
    require(depth_ > 0, where_, "is {}; COCO instances are an object", what);
    if (section_ == CocoSection::none) return false;
    require(depth_ != 1, where_, "has {} as its {}, expected a list", what, name_of(section_));
    require(depth_ != 2, where_, "has {} as item {} of its {}, expected an object", what, item_,
            name_of(section_));
    if (in_box()) items_.fail(fmt::format("{} among its numbers", what));
    return depth_ == 3 && what != "null";
  }
  bool number(double value, std::optional<std::int64_t> whole) {
    if (in_box()) {
      input_.reported();
      items_.box_number(value);
    } else if (scalar("a number")) {
      items_.number(value, whole);
    }
    return true;
  }
  bool open(bool list);
  bool close() {
    input_.reported();
    if (--depth_ == 1) section_ = CocoSection::none;
    return true;
  }

  const std::string& where_;
  BoundedInput& input_;
  CocoItems items_;
  std::set<CocoSection> sections_;
  CocoSection section_ = CocoSection::none;
  int depth_ = 0;
  std::size_t item_ = 0;  // of the section
};

bool CocoHandler::open(bool list) {
  input_.reported();
  const char* const what = list ? "a list" : "an object";
  if (in_box()) items_.fail(fmt::format("{} among its numbers", what));
  require(++depth_ <= kDeepest, where_, "nests deeper than {}", kDeepest);
  require(depth_ > 1 || !list, where_,
          "is a list, like results of a detector; COCO instances are an object with images, annotations and "
          "categories");
  if (section_ == CocoSection::none) return true;
  if (depth_ == 2) {
    require(list, where_, "has an object as its {}, expected a list", name_of(section_));
    item_ = 0;
  } else if (depth_ == 3) {
    require(!list, where_, "has a list as item {} of its {}, expected an object", item_, name_of(section_));
    items_.begin(section_, item_);
  } else if (depth_ == 4) {
    items_.open(list);
  }
  return true;
}

}  // namespace

CocoFile read_coco_file(const std::filesystem::path& path, std::size_t longest) {
  const files::InputFile file(path);
  BoundedInput input(file, longest);
  std::istream stream(&input);
  CocoHandler handler(file.path(), input);
  CocoJson::sax_parse(stream, &handler);
  return handler.take();
}

}  // namespace tandem::datasets
