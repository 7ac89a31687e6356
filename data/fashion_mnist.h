// Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): 60,000 and 10,000 grey images of 28 × 28 pixels in ten
// classes, from the Debian package dataset-fashion-mnist.
#pragma once

#include <filesystem>

#include "data/labelled_set.h"

namespace tandem::datasets {

inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

struct FashionMnist {
  std::shared_ptr<InMemoryDataset> train, test;
};

// An empty `folder` is the package's. Throws UserError that names the package and a missing file.
FashionMnist read_fashion_mnist(const std::filesystem::path& folder = {});

LabelledRegistry::Entry fashion_mnist_entry();

}  // namespace tandem::datasets
