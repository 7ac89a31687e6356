// Images of a VOC split: a list in ImageSets/Main, or all annotated images.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::datasets {

struct VocImageId {
  std::string id;     // name of its files without extension
  std::string place;  // in the list: "trainval.txt:12"; or the annotation file
};

struct VocList {
  std::filesystem::path folder;  // has JPEGImages and Annotations
  std::vector<VocImageId> ids;
  std::vector<VocImageId> unlisted{};  // with −1 in a list of one class: the class does not occur
  std::vector<VocImageId> foreign{};   // hidden files among the annotations, left out
};

// Reads a list file. A line has an id or, in a list of one class, an id and 1 (the class occurs), 0 (only as
// difficult objects) or −1 (it does not). Throws UserError that names the line for any other line, an invalid
// file name, and a repeated id; also for an empty list.
void read_voc_list(const std::filesystem::path& path, VocList& list);

// "VOC2007/trainval" is the list ImageSets/Main/trainval.txt of the folder VOC2007 in `root`; "trainval"
// alone is one of `root` itself. A `split` that is a folder with Annotations ("." for `root`) means all of
// its annotations but hidden files, sorted by name. Throws UserError in the name of `key` when there is
// neither.
VocList voc_list(const std::filesystem::path& root, const std::string& split, const std::string& key);

}  // namespace tandem::datasets
