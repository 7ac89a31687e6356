// Data set of the 1,797 handwritten digits of the UCI repository, 8 × 8 pixels. It comes with Tandem
// (data/digits/README.md).
#pragma once

#include <filesystem>

#include "data/labelled_set.h"

namespace tandem::datasets {

// Reads all samples. `folder` holds digits-images-idx3-ubyte.gz and digits-labels-idx1-ubyte.gz. An empty
// path searches $TANDEM_DATA_DIR/digits, beside the sources, beside the program
// (../share/tandem/data/digits), and the place where Tandem is installed.
std::shared_ptr<InMemoryDataset> read_digits(const std::filesystem::path& folder = {});

struct DigitsOptions {
  double test_fraction = 0.2;  // share of every class
};
// The test split gets a share of every class.
Splits open_digits(const DigitsOptions& own, const SetOptions& common);
LabelledRegistry::Entry digits_entry();

}  // namespace tandem::datasets
