#include "data/fashion_mnist.h"

#include "data/idx.h"

namespace tandem::datasets {

FashionMnist read_fashion_mnist(const std::filesystem::path& folder) {
  const IdxFiles files = find_idx_files(
      folder.empty() ? kFashionMnistFolder : folder,
      "; Debian's package dataset-fashion-mnist installs them: apt install dataset-fashion-mnist");
  DatasetInfo info{.name = "fashion_mnist", .classes = 10};
  info.class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                      "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  info.statistics = {{0.2860F}, {0.3530F}};
  return {read_idx_dataset(files.train, info), read_idx_dataset(files.test, info)};
}

namespace {

struct FashionMnistOptions {};

}  // namespace

LabelledRegistry::Entry fashion_mnist_entry() {
  return LabelledRegistry::entry<FashionMnistOptions>(
      "fashion_mnist", "60,000 + 10,000 grey images of clothes, 28x28, 10 classes",
      options::Describe<FashionMnistOptions>(), [](const FashionMnistOptions&, const SetOptions& common) {
        const FashionMnist sets = read_fashion_mnist(common.place());
        return Splits{.train = sets.train, .test = sets.test, .validation = {}};
      });
}

}  // namespace tandem::datasets
