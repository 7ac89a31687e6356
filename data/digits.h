// The 1,797 handwritten digits of the UCI repository, 8 × 8 pixels, which come with Tandem
// (data/digits/README.md).
#pragma once

#include <filesystem>

#include "data/labelled_set.h"

namespace tandem::datasets {

// All samples. `folder` holds digits-images-idx3-ubyte.gz and digits-labels-idx1-ubyte.gz; empty finds it: in
// $TANDEM_DATA_DIR/digits, beside the sources, beside the program (../share/tandem/data/digits), where Tandem
// is installed.
std::shared_ptr<InMemoryDataset> read_digits(const std::filesystem::path& folder = {});

struct DigitsOptions {
  double test_fraction = 0.2;  // of every class
};
// A share of every class is for testing.
Splits open_digits(const DigitsOptions& own, const SetOptions& common);
LabelledRegistry::Entry digits_entry();

}  // namespace tandem::datasets
