// Data sets by name, split for training and testing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/image_file.h"
#include "data/layout.h"
#include "data/transforms/pipeline.h"

namespace tandem::datasets {

// What a configuration says about its data. A key that a data set has no use for is ignored by it.
struct DataOptions {
  std::string name{};
  // Folder or file; empty: where the data set is usually installed.
  std::filesystem::path path{};
  // Samples to use, drawn evenly; 0: all (synthetic: 5000 and 1000).
  Index train_size = 0, test_size = 0;
  // Samples set aside from the training split, or used of the files' own; 0: none, or all.
  Index validation_size = 0;
  double test_fraction = 0.2;         // of every class, where the files have no test split
  std::uint64_t split_seed = 0;       // draws the splits; the run's own seed does not move them
  Index image_size = 0;               // side; image_folder (0: 224), synthetic (0: 32)
  Index channels = 0;                 // image_folder: 3 or 1; synthetic: any (0: 3)
  Layout layout = Layout::automatic;  // idx, npy: of arrays of images
  Index classes = 0;                  // idx, npy: labels are below it (0: the highest + 1); synthetic (0: 10)
  double noise = 0.15;                // synthetic
  // idx: files with other names, relative to `path`; all four or none.
  std::filesystem::path train_images{}, train_labels{}, test_images{}, test_labels{};
  std::size_t image_memory = kImageMemory;  // bytes that decoding one image may take; image_folder
  // image_folder: take the next image for one that cannot be read, until there are more than max_bad_samples.
  bool skip_bad_samples = false;
  Index max_bad_samples = 100;
  std::function<void(const std::string&)> report{};  // called with the reason for each sample skipped
};

struct Splits {
  DatasetPtr train, test;
  DatasetPtr validation;  // absent unless asked for or in the files
  Index image_size = 0;   // side that images of varying size are brought to
};

// Throws UserError: an unknown name (with the nearest known one), missing files (with the package or archive
// that has them), and whatever is wrong with the files.
Splits open_dataset(const DataOptions& options);

// The pipelines for a list of augmentations. Images of varying size are first brought to image_size (shorter
// side, then the centre), unless the list has a resize or random_resized_crop; the latter's size is
// image_size unless given. Evaluation uses `evaluation_transforms` of the list.
Pipeline training_pipeline(const Splits& splits, std::span<const TransformSpec> augment);
Pipeline evaluation_pipeline(const Splits& splits, std::span<const TransformSpec> augment);

struct DatasetEntry {
  std::string name;
  std::string help;   // one line
  std::string where;  // where its files are looked for
  Splits (*open)(const DataOptions&);
};

// In the order documents list them.
const std::vector<DatasetEntry>& all_datasets();

}  // namespace tandem::datasets
