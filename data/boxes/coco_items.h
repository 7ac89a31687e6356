// Items of the lists in COCO instances, built from a parser's events: keys and values. Errors name the item:
// "annotations, item 17 (id 918)".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/boxes/coco_file.h"

namespace tandem::datasets {

enum class CocoSection : std::uint8_t { none, images, annotations, categories };

const char* name_of(CocoSection section);

class CocoItems {
 public:
  // Keeps a reference to `where`.
  explicit CocoItems(const std::string& where) : where_(where) {}

  void begin(CocoSection section, std::size_t number);  // number in the list, from 0
  void key(const std::string& name);
  // Value of the last key; ignored for unknown keys. All throw UserError for a value that the field cannot
  // have.
  void number(double value, std::optional<std::int64_t> whole);  // `whole`: the same, if it is an integer
  void text(std::string value);
  void boolean(bool value);
  void open(bool list);  // of an object or a list
  // Numbers of a bbox, after its list was opened.
  bool in_box() const { return field_ == Field::bbox; }
  void box_number(double value);
  [[noreturn]] void fail(const std::string& what) const;  // "annotations, item 3 has bbox …"
  void close_box();
  // Throws UserError when a field is missing.
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
  std::uint32_t seen_ = 0, found_ = 0;  // bit sets of the item's fields: keys and values
  std::size_t numbers_ = 0;             // in the bbox
  std::optional<std::int64_t> id_;
  CocoImage image_;
  CocoAnnotation annotation_;
  CocoCategory category_;
};

}  // namespace tandem::datasets
