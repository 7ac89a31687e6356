// Images with boxes, independent of the file format, for training, evaluation and export. Pixels are read
// separately (data/image_file.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

class ImageMaker;  // data/boxes/image_maker.h

// Corners of a box in continuous, 0-based pixels: pixel (i, j) covers [i, i+1] × [j, j+1], so the box of a
// whole image is [0, 0, width, height]. FP64 keeps the values of the files exact, so that metrics are
// comparable with other evaluators'.
struct Corners {
  double x1 = 0.0, y1 = 0.0, x2 = 0.0, y2 = 0.0;

  double width() const { return x2 - x1; }
  double height() const { return y2 - y1; }
  double area() const { return width() * height(); }
  friend bool operator==(const Corners&, const Corners&) = default;
};

struct BoxObject {
  Corners box;             // within its image, of positive area
  Index label = 0;         // 1 to BoxClasses::count(); 0 is the background, which no object has
  std::int64_t id = 0;     // of the annotation, unique in a corpus
  double area = 0.0;       // pixels, from the file (of a mask, perhaps 0), or else the box's
  bool crowd = false;      // stands for any number of objects of its class (COCO's iscrowd)
  bool difficult = false;  // neither a hit nor a miss in the metric (VOC)
  friend bool operator==(const BoxObject&, const BoxObject&) = default;
};

struct BoxImage {
  std::string file;     // path of the image
  std::string name;     // VOC: the id in the lists; COCO: file_name
  std::int64_t id = 0;  // COCO: the file's; VOC: the number in the order of the lists and splits, from 1
  Index width = 0, height = 0;
  std::vector<BoxObject> objects;  // in the order of the file
  friend bool operator==(const BoxImage&, const BoxImage&) = default;
};

// Classes by label. Label 0 is the background, which is no class of the files.
struct BoxClasses {
  std::vector<std::string> names{"background"};  // "": a label without a class
  std::vector<std::int64_t> ids{0};              // COCO: ids of the categories; VOC: the labels
  // COCO: name of a category of id 0 that means the background and is no class.
  std::optional<std::string> own_background{};

  Index count() const { return static_cast<Index>(names.size()) - 1; }
  bool has(std::size_t label) const { return !names.at(label).empty(); }
  void add(std::string name, std::int64_t id);
  friend bool operator==(const BoxClasses&, const BoxClasses&) = default;
};

// "background", "__background__", "bg", in any case.
bool means_background(std::string_view name);

// Count of an event, with the place and value of the first.
struct Tally {
  Index count = 0;
  std::string first;
};

// Deviations from the files.
struct BoxTallies {
  Tally clipped;    // crossed the border of the image and were clipped
  Tally zero_area;  // left out
  Tally outside;    // outside the image, left out
  Tally crowds;     // left out of training
  Tally difficult;  // left out of training
  Tally missing;    // images without a file, left out with their boxes
  Tally at_zero;    // kept: xmin or ymin is 0 although the file counts from 1
  Tally unlisted;   // images marked as without the class in a list of one class, left out
  Tally foreign;    // hidden files among the annotations, left out
};

struct BoxCorpus {
  std::string where;  // for messages: a file, a folder
  BoxClasses classes;
  std::vector<BoxImage> images;  // ids unique; COCO: ascending by id; VOC: in the order of the lists
  BoxTallies tallies;
  std::shared_ptr<const ImageMaker> maker{};  // generates the images; absent: they are files
};

}  // namespace tandem::datasets
