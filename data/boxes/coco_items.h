// The items of the lists in COCO's instances: their fields, told key by key and value by value as a parser of
// a stream meets them. What is wrong with one is told by its place: "annotations, item 17 (id 918)".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/boxes/coco_file.h"

namespace tandem::datasets {

enum class CocoSection : std::uint8_t { none, images, annotations, categories };

const char* name_of(CocoSection section);

class CocoItems {
 public:
  // `where` outlives it.
  explicit CocoItems(const std::string& where) : where_(where) {}

  void begin(CocoSection section, std::size_t number);  // of the item in its list, from 0
  void key(const std::string& name);
  // Values of the last key; what is of a key that is none of ours is passed over. All throw UserError where
  // the field cannot have it.
  void number(double value, std::optional<std::int64_t> whole);  // the same, where it is an integer
  void text(std::string value);
  void boolean(bool value);
  void open(bool list);  // an object or a list
  // Of the numbers of a bbox, which are in a list that was opened.
  bool in_box() const { return field_ == Field::bbox; }
  void box_number(double value);
  [[noreturn]] void fail(const std::string& what) const;  // "annotations, item 3 has bbox …"
  void close_box();
  // Throws UserError where a field is missing.
  void finish();

  CocoFile take() { return std::move(file_); }

 private:
  enum class Field : std::uint8_t {
    none,
    id,
    file_name,
    width,
    height,
    image_id,
    category_id,
    bbox,
    area,
    iscrowd,
    name,
  };
  struct FieldOf {
    CocoSection section;
    const char* key;
    Field field;
    bool required;
  };
  static const FieldOf kFields[];

  void found() { found_ |= bit(); }
  std::uint32_t bit() const { return 1U << static_cast<unsigned>(field_); }
  Index extent(double value, std::optional<std::int64_t> whole) const;
  std::string place() const;

  const std::string& where_;
  CocoFile file_;
  CocoSection section_ = CocoSection::none;
  std::size_t item_ = 0;
  Field field_ = Field::none;
  std::string key_;
  std::uint32_t seen_ = 0, found_ = 0;  // keys and values of the item, a bit each field
  std::size_t numbers_ = 0;             // of a bbox
  std::optional<std::int64_t> id_;
  CocoImage image_;
  CocoAnnotation annotation_;
  CocoCategory category_;
};

}  // namespace tandem::datasets
