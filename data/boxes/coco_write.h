// Export of boxes as COCO instances.
#pragma once

#include <filesystem>
#include <string>

#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

// A JSON object with images, annotations and categories, one item per line. Ids are the corpus's, those of
// categories the files'. bbox is [x1, y1, width, height]; sizes have the fewest digits that restore x2 and y2
// on addition. file_name is relative to `images`, or the full path of an image elsewhere. COCO has no
// difficult objects: their flag is lost.
std::string coco_instances(const BoxCorpus& corpus, const std::filesystem::path& images);

// Writes the same to a file. Throws VendorError when it cannot be written.
void write_coco(const BoxCorpus& corpus, const std::filesystem::path& file,
                const std::filesystem::path& images);

}  // namespace tandem::datasets
