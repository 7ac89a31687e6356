#include "data/boxes/coco_items.h"

#include "core/error.h"
#include "core/printable.h"
#include "data/limits.h"

namespace tandem::datasets {

const char* name_of(CocoSection section) {
  switch (section) {
    case CocoSection::images:
      return "images";
    case CocoSection::annotations:
      return "annotations";
    case CocoSection::categories:
      return "categories";
    case CocoSection::none:
      break;
  }
  return "";
}

const CocoItems::FieldOf CocoItems::kFields[] = {
    {CocoSection::images, "id", Field::id, true},
    {CocoSection::images, "file_name", Field::file_name, true},
    {CocoSection::images, "width", Field::width, true},
    {CocoSection::images, "height", Field::height, true},
    {CocoSection::annotations, "id", Field::id, true},
    {CocoSection::annotations, "image_id", Field::image_id, true},
    {CocoSection::annotations, "category_id", Field::category_id, true},
    {CocoSection::annotations, "bbox", Field::bbox, true},
    {CocoSection::annotations, "area", Field::area, false},
    {CocoSection::annotations, "iscrowd", Field::iscrowd, false},
    {CocoSection::categories, "id", Field::id, true},
    {CocoSection::categories, "name", Field::name, true},
};

void CocoItems::begin(CocoSection section, std::size_t number) {
  section_ = section;
  item_ = number;
  field_ = Field::none;
  seen_ = found_ = 0;
  id_.reset();
  image_ = {};
  annotation_ = {};
  category_ = {};
}

void CocoItems::key(const std::string& name) {
  field_ = Field::none;
  for (const FieldOf& known : kFields) {
    if (known.section != section_ || name != known.key) continue;
    key_ = name;
    field_ = known.field;
    if ((seen_ & bit()) != 0) fail("twice");
    seen_ |= bit();
  }
}

void CocoItems::number(double value, std::optional<std::int64_t> whole) {
  const auto integer = [&] {
    if (!whole) fail(fmt::format("{}, expected an integer", value));
    return *whole;
  };
  switch (field_) {
    case Field::none:
      return;
    case Field::id:
      id_ = image_.id = annotation_.id = category_.id = integer();
      break;
    case Field::image_id:
      annotation_.image = integer();
      break;
    case Field::category_id:
      annotation_.category = integer();
      break;
    case Field::width:
      image_.width = extent(value, whole);
      break;
    case Field::height:
      image_.height = extent(value, whole);
      break;
    case Field::area:
      annotation_.area = value;
      break;
    case Field::iscrowd:
      if (value != 0 && value != 1) fail(fmt::format("{}, expected 0 or 1", value));
      annotation_.crowd = value == 1;
      break;
    case Field::bbox:
      fail(fmt::format("{}, expected a list", value));
    case Field::file_name:
    case Field::name:
      fail(fmt::format("{}, expected a text", value));
  }
  found();
}

void CocoItems::text(std::string value) {
  if (field_ == Field::none) return;
  if (field_ != Field::file_name && field_ != Field::name)
    fail(fmt::format("\"{}\", expected a number", shortened(printable(value), 40)));
  if (value.empty()) fail("an empty text");
  (field_ == Field::name ? category_.name : image_.file_name) = std::move(value);
  found();
}

void CocoItems::boolean(bool value) {
  if (field_ == Field::none) return;
  if (field_ != Field::iscrowd) fail(value ? "true" : "false");
  annotation_.crowd = value;
  found();
}

void CocoItems::open(bool list) {
  if (field_ == Field::none) return;
  if (!list || field_ != Field::bbox) fail(list ? "a list" : "an object");
  numbers_ = 0;
}

void CocoItems::box_number(double value) {
  if (numbers_ < annotation_.bbox.size()) annotation_.bbox[numbers_] = value;
  ++numbers_;
}

void CocoItems::close_box() {
  if (numbers_ != annotation_.bbox.size())
    fail(fmt::format("{} numbers, expected x, y, width and height", numbers_));
  found();
}

Index CocoItems::extent(double value, std::optional<std::int64_t> whole) const {
  if (!whole || *whole < 1 || *whole > kMaxPixels)
    fail(fmt::format("{}, expected a number of pixels", value));
  return *whole;
}

std::string CocoItems::place() const {
  return fmt::format("{}, item {}{}", name_of(section_), item_, id_ ? fmt::format(" (id {})", *id_) : "");
}

void CocoItems::fail(const std::string& what) const {
  throw UserError(where_, fmt::format("{} has {} {}", place(), key_, what));
}

void CocoItems::finish() {
  for (const FieldOf& known : kFields) {
    const bool there = (found_ >> static_cast<unsigned>(known.field) & 1U) != 0;
    require(known.section != section_ || !known.required || there, where_, "{} has no {}", place(),
            known.key);
  }
  if (section_ == CocoSection::images) {
    require(image_.width <= kMaxPixels / image_.height, where_, "{} is of {}x{} pixels, at most {}", place(),
            image_.width, image_.height, kMaxPixels);
    file_.images.push_back(std::move(image_));
  } else if (section_ == CocoSection::annotations) {
    file_.annotations.push_back(annotation_);
  } else {
    file_.categories.push_back(std::move(category_));
  }
}

}  // namespace tandem::datasets
