// Synthetic data set in memory, for tests, benchmarks and machines without downloads.
#pragma once

#include <cstdint>

#include "data/labelled_set.h"

namespace tandem::datasets {

struct SyntheticOptions {
  Index count = 10000;
  Index classes = 10;
  Index height = 32, width = 32, channels = 3;
  double noise = 0.15;  // standard deviation, in units of full brightness
  std::uint64_t seed = 0;
  std::uint32_t split = 0;  // splits of one seed share classes, not samples
};

// u8 images: sample i is the pattern of class i mod `classes`, randomly shifted, with noise. A pure function
// of the options. Throws UserError on an empty extent or more than 64 GiB.
std::shared_ptr<InMemoryDataset> make_synthetic(const SyntheticOptions& options);

struct SyntheticSetOptions {
  Index image_size = 0;  // 0: 32
  Index channels = 0;    // 0: 3
  Index classes = 0;     // 0: 10
  double noise = 0.15;

  // Info of the set, without generating it.
  DatasetInfo info() const;
};
LabelledRegistry::Entry synthetic_entry();

}  // namespace tandem::datasets
