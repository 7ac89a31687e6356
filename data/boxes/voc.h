// PASCAL VOC: folders JPEGImages, Annotations and ImageSets/Main for each year (Everingham et al. 2010, The
// PASCAL Visual Object Classes Challenge), and data sets in that format.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/boxes/box_registry.h"

namespace tandem::datasets {

struct VocOptions {
  // Splits as for voc_list (data/boxes/voc_lists.h), joined in their order.
  std::vector<std::string> train{"VOC2007/trainval", "VOC2012/trainval"};
  std::vector<std::string> validation{};          // empty: none
  std::vector<std::string> test{"VOC2007/test"};  // empty: test_fraction of the training images
  double test_fraction = 0.2;
  std::vector<std::string>
      class_names{};      // in the order of their labels; empty: those of the training objects, sorted
  bool one_based = true;  // the first pixel is 1, as in VOC's own files
};

// The images of several lists in order. Boxes become [xmin − 1, ymin − 1, xmax, ymax] in continuous pixels,
// or are kept if files count from 0 (`one_based` false). Empty `classes`: those of the objects, sorted. The
// file of an image is JPEGImages/ID with .jpg, .jpeg or .png; .jpg if there is none.
//
// Throws UserError that names files, objects and values: missing or malformed files, a repeated id, refused
// boxes (data/boxes/box_admission.h), a class outside `classes`.
BoxCorpus read_voc(const std::filesystem::path& root, const std::vector<std::string>& splits, bool one_based,
                   BoxClasses classes = {}, const std::string& key = "splits");

BoxSetRegistry::Entry voc_entry();

}  // namespace tandem::datasets
