// Registry of detection data sets: "voc" (data/boxes/voc.h), "coco" (data/boxes/coco.h), and those of
// extensions.
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
  BoxCorpus train, test;  // with the same classes
  std::optional<BoxCorpus> validation;
  std::vector<std::string> notes;  // messages for the user, each shown once
};

// Moves a share of the training images, at least one, to the test split, for files without a test split.
// Throws UserError for fewer than two images.
void hold_out_test(BoxSplits& splits, double fraction, std::uint64_t seed);

// Entries read the splits of the files, with all boxes. Image files may be missing.
using BoxSetRegistry = options::Registry<BoxSplits(const SetOptions&)>;
// In the order of the documentation. There is no default.
BoxSetRegistry& box_sets();

enum class Difficult : std::uint8_t { keep, drop };

// Configuration of such a set.
struct BoxSetOptions {
  options::Choice<box_sets> set;
  SetOptions common;
  MissingImages missing = MissingImages::error;
  Difficult difficult = Difficult::keep;  // in training; evaluations keep all of them
  static const options::Schema& schema();
};

// Reads the files, checks the images and applies the sizes. The training split drops crowds and, if so
// configured, difficult objects; evaluated splits keep both. All splits drop boxes of zero area and boxes
// outside of their image. Notes list the summaries, dropped and changed boxes, suspicious labels
// (data/boxes/label_check.h), and images that are both trained on and evaluated.
//
// Throws UserError for missing or invalid files, and for a training split without boxes.
BoxSplits open_box_set(const BoxSetOptions& options);
// Number of classes and largest number of objects of an image in the published set of a format, for use
// without its files: COCO 2017, VOC 2007 and 2012. Absent for other sets.
struct PublishedBoxes {
  Index classes, most_objects;
};
std::optional<PublishedBoxes> published_boxes(const BoxSetOptions& options);

// Opens a set by name. Throws UserError also for an unknown name and for unknown keys.
//   open_box_set("voc", {.path = "VOCdevkit"}, {{"train", std::vector<std::string>{"VOC2007/trainval"}}});
BoxSplits open_box_set(std::string_view name, const SetOptions& common, const options::Given& own = {});

}  // namespace tandem::datasets

template <>
struct tandem::options::EnumNames<tandem::datasets::Difficult> {
  static constexpr std::array values{"keep", "drop"};
};
