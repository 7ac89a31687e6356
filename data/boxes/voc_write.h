// Boxes as files of PASCAL VOC.
#pragma once

#include <filesystem>
#include <string>

#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

// One image as annotation/object/bndbox: [x1 + 1, y1 + 1, x2, y2], or with `one_based` false the corners as
// they are, in as few digits as give the corners back. VOC has no crowds: one is written as difficult, which
// is neither right nor wrong to find, too. Areas and ids have no place in the files.
std::string voc_annotation(const BoxImage& image, const BoxClasses& classes, bool one_based = true);

// Writes FOLDER/Annotations/ID.xml for each image, the list FOLDER/ImageSets/Main/LIST.txt and for each class
// CLASS_LIST.txt with 1, 0 (only as difficult objects) or −1 for each image. ID is the image's name without
// folders and without the end of an image file. Images are left where they are; read_voc expects them in
// FOLDER/JPEGImages. Throws UserError naming two images of one ID, or an ID or a class that cannot be part
// of a file's name, and VendorError what cannot be written.
void write_voc(const BoxCorpus& corpus, const std::filesystem::path& folder, const std::string& list,
               bool one_based = true);

}  // namespace tandem::datasets
