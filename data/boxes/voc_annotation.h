// Annotation file of PASCAL VOC: XML with the size of an image and its objects.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

struct VocObject {
  std::string name;               // of its class
  double xmin, ymin, xmax, ymax;  // as in the file; VOC counts from 1, with the last pixel included
  bool difficult = false;
};

struct VocAnnotation {
  Index width = 0, height = 0;
  std::vector<VocObject> objects;  // in the order of the file
};

// Reads annotation/size and the objects directly below the annotation: name, bndbox and difficult. Ignores
// parts and actions, which have their own names and boxes. Coordinates are any numbers; a missing or empty
// difficult is 0. Throws UserError in the name of `where`: invalid XML with the line, missing or non-numeric
// fields with the object, and invalid sizes.
VocAnnotation parse_voc_annotation(std::string_view xml, const std::string& where);

}  // namespace tandem::datasets
