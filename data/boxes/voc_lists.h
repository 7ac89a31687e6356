// Images of a split of VOC: lists below ImageSets/Main, or all that are annotated.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::datasets {

struct VocImageId {
  std::string id;     // the name of its files without their ends
  std::string place;  // where it is listed: "trainval.txt:12", or the annotation file
};

struct VocList {
  std::filesystem::path folder;  // that has JPEGImages and Annotations
  std::vector<VocImageId> ids;
  std::vector<VocImageId> unlisted{};  // of a list of one class, those with −1: none of it in them
  std::vector<VocImageId> foreign{};   // hidden files among the annotations, left out
};

// A list file: a line has an id, or, in a list of one class, an id and 1 (the class is in it), 0 (only as
// difficult objects) or −1 (not at all). Throws UserError with the line what is neither, an id that cannot be
// a file's name, and one that stands there twice; and when it names no image.
void read_voc_list(const std::filesystem::path& path, VocList& list);

// "VOC2007/trainval": the list ImageSets/Main/trainval.txt of the folder VOC2007 below `root`; a "trainval"
// alone is one of `root` itself. Where `split` leads to a folder with Annotations, "." for `root`, all of
// these that are not hidden, sorted by name. Throws UserError in the name of `key` when there is neither.
VocList voc_list(const std::filesystem::path& root, const std::string& split, const std::string& key);

}  // namespace tandem::datasets
