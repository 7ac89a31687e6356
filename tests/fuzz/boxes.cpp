// Boxes: the first byte selects the format. Accepted input is written and read again.
#include <cmath>

#include "data/boxes/coco.h"
#include "data/boxes/voc_annotation.h"
#include "data/boxes/voc_lists.h"
#include "tests/fuzz/target.h"
#include "tests/support/box_files.h"

namespace tandem::fuzz {

namespace {

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

void expect_inside(const datasets::BoxImage& image, const datasets::BoxClasses& classes) {
  for (const datasets::BoxObject& object : image.objects) {
    const datasets::Corners& box = object.box;
    expect(box.x1 >= 0 && box.x1 < box.x2 && box.x2 <= static_cast<double>(image.width), "a box is too wide");
    expect(box.y1 >= 0 && box.y1 < box.y2 && box.y2 <= static_cast<double>(image.height),
           "a box is too high");
    expect(object.label >= 1 && object.label <= classes.count(), "a label is none");
    expect(std::isfinite(object.area) && object.area >= 0, "an area is none");
  }
}

void run_voc(Bytes input) {
  const datasets::VocAnnotation read = datasets::parse_voc_annotation(text_of(input), "input");
  datasets::BoxClasses classes;
  datasets::BoxImage image{.file = "a.jpg", .name = "a", .width = read.width, .height = read.height};
  for (const datasets::VocObject& object : read.objects) {
    expect(!object.name.empty(), "an object has no name");
    classes.add(object.name, classes.count() + 1);
    const datasets::Corners box{object.xmin - 1, object.ymin - 1, object.xmax, object.ymax};
    image.objects.push_back({.box = box, .label = classes.count()});
  }
  const datasets::VocAnnotation again =
      datasets::parse_voc_annotation(datasets::testing::voc_annotation(image, classes), "written");
  expect(again.width == read.width && again.objects.size() == read.objects.size(),
         "what is written is other");
}

void run_coco(Bytes input) {
  const datasets::BoxCorpus read = datasets::read_coco(file_of(input), "images");
  for (const datasets::BoxImage& image : read.images) expect_inside(image, read.classes);
  const std::string written = datasets::testing::coco_instances(read, "images");
  const datasets::BoxCorpus again = datasets::read_coco(file_of(std::as_bytes(std::span(written))), "images");
  expect(again.classes == read.classes && again.images.size() == read.images.size(),
         "what is written is other");
  for (std::size_t i = 0; i < read.images.size(); ++i)
    expect(again.images[i].id == read.images[i].id && again.images[i].objects == read.images[i].objects,
           "the objects written are others");
}

void run(Bytes input) {
  if (input.empty()) return;
  const Bytes rest = input.subspan(1);
  switch (std::to_integer<int>(input[0]) % 4) {
    case 0:
      return run_voc(rest);
    case 1:
      return run_coco(rest);
    case 2: {
      datasets::VocList list;
      datasets::read_voc_list(file_of(rest), list);
      for (const datasets::VocImageId& image : list.ids) expect(!image.id.empty(), "an id is empty");
      return;
    }
    default:
      return;
  }
}

}  // namespace

TANDEM_FUZZ_TARGET("boxes", run)

}  // namespace tandem::fuzz
