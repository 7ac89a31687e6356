// Images with boxes, whatever the format of the files they were read from: what is trained on, evaluated,
// and written to files again. Pixels are elsewhere (data/image_file.h).
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

// Of a box, in pixels, continuous and 0-based: pixel (i, j) covers [i, i+1] × [j, j+1], so that the box of a
// whole image is [0, 0, width, height]. In FP64: what files say stays as it is, for figures that are compared
// with other evaluators'.
struct Corners {
  double x1 = 0.0, y1 = 0.0, x2 = 0.0, y2 = 0.0;

  double width() const { return x2 - x1; }
  double height() const { return y2 - y1; }
  double area() const { return width() * height(); }
  friend bool operator==(const Corners&, const Corners&) = default;
};

struct BoxObject {
  Corners box;             // within its image, of an area above 0
  Index label = 0;         // 1 to BoxClasses::count(); 0 is the background, which no object is
  std::int64_t id = 0;     // of the annotation, unique in a corpus
  double area = 0.0;       // pixels, as the file has it – that of a mask, perhaps 0 –, else the box's
  bool crowd = false;      // stands for any number of objects of its class (COCO's iscrowd)
  bool difficult = false;  // neither right nor wrong to find (VOC)
  friend bool operator==(const BoxObject&, const BoxObject&) = default;
};

struct BoxImage {
  std::string file;     // path of the image
  std::string name;     // VOC: the id that lists have; COCO: file_name
  std::int64_t id = 0;  // COCO: the file's; VOC: the number in the order of the lists and splits, from 1
  Index width = 0, height = 0;
  std::vector<BoxObject> objects;  // in the order of the file
  friend bool operator==(const BoxImage&, const BoxImage&) = default;
};

// Classes by label. The background is label 0 and no class of the files.
struct BoxClasses {
  std::vector<std::string> names{"background"};  // "": a label that no class has
  std::vector<std::int64_t> ids{0};              // COCO: of the categories; VOC: the labels
  // COCO: what the file calls a category of id 0 that is the background; it is none of the classes.
  std::optional<std::string> own_background{};

  Index count() const { return static_cast<Index>(names.size()) - 1; }
  bool has(std::size_t label) const { return !names.at(label).empty(); }
  void add(std::string name, std::int64_t id);
  friend bool operator==(const BoxClasses&, const BoxClasses&) = default;
};

// "background", "__background__", "bg", in any case.
bool means_background(std::string_view name);

// What happened so often, and the place and value of the first.
struct Tally {
  Index count = 0;
  std::string first;
};

// What was not taken as the files have it.
struct BoxTallies {
  Tally clipped;    // over the border of the image, cut to it
  Tally zero_area;  // left out
  Tally outside;    // of the image, left out
  Tally crowds;     // left out of training
  Tally difficult;  // left out of training
  Tally missing;    // images without a file, left out with their boxes
  Tally at_zero;    // kept: xmin or ymin is 0 in a file that is said to count from 1
  Tally unlisted;   // images that a list of one class says have none of it, left out
  Tally foreign;    // hidden files among the annotations, left out
};

struct BoxCorpus {
  std::string where;  // for messages: a file, a folder
  BoxClasses classes;
  std::vector<BoxImage> images;  // ids unique; COCO: ascending by id; VOC: in the order of the lists
  BoxTallies tallies;
  std::shared_ptr<const ImageMaker> maker{};  // of the images; absent: they are read from their files
};

}  // namespace tandem::datasets
