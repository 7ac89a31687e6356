// PASCAL VOC: folders JPEGImages, Annotations and ImageSets/Main for each year, and sets of others in that
// form (Everingham et al. 2010, The PASCAL Visual Object Classes Challenge).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/boxes/box_registry.h"

namespace tandem::datasets {

struct VocOptions {
  // As voc_list (data/boxes/voc_lists.h) has it, joined in their order.
  std::vector<std::string> train{"VOC2007/trainval", "VOC2012/trainval"};
  std::vector<std::string> validation{};          // empty: none
  std::vector<std::string> test{"VOC2007/test"};  // empty: test_fraction of the training images
  double test_fraction = 0.2;
  std::vector<std::string>
      class_names{};      // in the order of their labels; empty: of the training objects, sorted
  bool one_based = true;  // the first pixel is 1, as in VOC's own files
};

// The images of several lists, in their order. Boxes become [xmin − 1, ymin − 1, xmax, ymax] of continuous
// pixels, or stay as they are where files count from 0 (`one_based` false). `classes` of none: those of the
// objects, sorted. The file of an image is that of its id below JPEGImages, .jpg, .jpeg or .png, and the
// first of these where there is none.
//
// Throws UserError, naming files, objects and values: what is missing or malformed, an id that is listed
// twice, boxes that are refused (data/boxes/box_admission.h), a class that is none of `classes`.
BoxCorpus read_voc(const std::filesystem::path& root, const std::vector<std::string>& splits, bool one_based,
                   BoxClasses classes = {}, const std::string& key = "splits");

BoxSetRegistry::Entry voc_entry();

}  // namespace tandem::datasets
