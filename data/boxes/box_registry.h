// Sets of images with boxes by name: "voc" (data/boxes/voc.h), "coco" (data/boxes/coco.h), and those that
// were added.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/boxes/box_corpus.h"
#include "data/boxes/box_images.h"
#include "data/labelled_set.h"

namespace tandem::datasets {

struct BoxSplits {
  BoxCorpus train, test;  // of the same classes
  std::optional<BoxCorpus> validation;
  std::vector<std::string> notes;  // what a user should be told, once
};

// Takes a share of the training images, one at least, for testing: of files without a test split. Throws
// UserError where there is one image only.
void hold_out_test(BoxSplits& splits, double fraction, std::uint64_t seed);

// Reads the splits that the files have, with all of their boxes. Images need not be there.
using BoxSetRegistry = options::Registry<BoxSplits(const SetOptions&)>;
// In the order documents list them. One must be named.
BoxSetRegistry& box_sets();

enum class Difficult : std::uint8_t { keep, drop };

// What a configuration says about such a set.
struct BoxSetOptions {
  options::Choice<box_sets> set;
  SetOptions common;
  MissingImages missing = MissingImages::error;
  Difficult difficult = Difficult::keep;  // in training; evaluations have all of them
  static const options::Schema& schema();
};

// Reads the files, looks for the images, applies the sizes, and takes out of the training split what is not
// learnt from: crowds, and difficult objects where options say so. Evaluated splits keep both. Boxes of zero
// area and boxes outside of their image are left out of all splits. Notes are the summaries, what was left
// out or changed, what looks wrong with the labels (data/boxes/label_check.h), and images that are trained on
// and evaluated.
//
// Throws UserError: missing files, whatever is wrong with the files, and when there is nothing to learn.
BoxSplits open_box_set(const BoxSetOptions& options);
// Classes of the published set of that form and the most objects of one of its images, for those who have not
// got its files: COCO's 2017, VOC's 2007 and 2012. Absent for sets that are made here.
struct PublishedBoxes {
  Index classes, most_objects;
};
std::optional<PublishedBoxes> published_boxes(const BoxSetOptions& options);

// By name; throws UserError also for an unknown one and for keys it does not have.
//   open_box_set("voc", {.path = "VOCdevkit"}, {{"train", std::vector<std::string>{"VOC2007/trainval"}}});
BoxSplits open_box_set(std::string_view name, const SetOptions& common, const options::Given& own = {});

}  // namespace tandem::datasets

template <>
struct tandem::options::EnumNames<tandem::datasets::Difficult> {
  static constexpr std::array values{"keep", "drop"};
};
