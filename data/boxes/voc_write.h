// Export of boxes in PASCAL VOC format.
#pragma once

#include <filesystem>
#include <string>

#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

// Annotation of one image. bndbox is [x1 + 1, y1 + 1, x2, y2], or the corners if `one_based` is false, in the
// fewest digits that restore the corners. Crowds become difficult, which the metric also ignores. The format
// has no areas and ids.
std::string voc_annotation(const BoxImage& image, const BoxClasses& classes, bool one_based = true);

// Writes FOLDER/Annotations/ID.xml for each image, the list FOLDER/ImageSets/Main/LIST.txt, and per class
// CLASS_LIST.txt with 1, 0 (only as difficult objects) or −1 for each image. ID is the image's name without
// folders and extension. Does not copy images, which read_voc expects in FOLDER/JPEGImages. Throws UserError
// that names two images of one ID, or an ID or class that is no valid file name; VendorError when a file
// cannot be written.
void write_voc(const BoxCorpus& corpus, const std::filesystem::path& folder, const std::string& list,
               bool one_based = true);

}  // namespace tandem::datasets
