// Boxes as a file of COCO's instances.
#pragma once

#include <filesystem>
#include <string>

#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

// A JSON object with images, annotations and categories, an item a line. Ids are those of the corpus, the
// categories' those of the files it was read from. bbox is [x1, y1, width, height], sizes in as few digits as
// give x2 and y2 back when they are added. file_name is the image's path below `images`, or the whole path of
// one that is elsewhere. COCO has no difficult objects: they are written as others.
std::string coco_instances(const BoxCorpus& corpus, const std::filesystem::path& images);

// The same into a file. Throws VendorError when it cannot be written.
void write_coco(const BoxCorpus& corpus, const std::filesystem::path& file,
                const std::filesystem::path& images);

}  // namespace tandem::datasets
