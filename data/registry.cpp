#include "data/registry.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/suggest.h"
#include "data/cifar.h"
#include "data/decorators.h"
#include "data/digits.h"
#include "data/fashion_mnist.h"
#include "data/idx.h"
#include "data/image_folder.h"
#include "data/npy.h"
#include "data/preparation.h"
#include "data/synthetic.h"
#include "files/input.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

constexpr Index kDefaultImageSize = 224;

void require_path(const DataOptions& options, std::string_view what) {
  require(!options.path.empty(), "data.path", "{} needs a path: {}", options.name, what);
}

std::vector<std::int64_t> labels_of(const InMemoryDataset& dataset) {
  return dataset.labels().to_vector<std::int64_t>();
}

Splits open_fashion_mnist(const DataOptions& options) {
  const FashionMnist sets = read_fashion_mnist(options.path);
  return {.train = sets.train, .test = sets.test, .validation = {}};
}

Splits open_digits(const DataOptions& options) {
  const auto all = read_digits(options.path);
  const SplitPair pair = split_by_class(all, labels_of(*all), options.test_fraction, options.split_seed);
  return {.train = pair.first, .test = pair.second, .validation = {}};
}

Splits open_cifar(CifarKind kind, const DataOptions& options, ChannelStatistics statistics) {
  require_path(options, "the folder of the unpacked binary version");
  CifarFiles files = find_cifar_files(kind, options.path);
  DatasetInfo info{.name = options.name, .class_names = std::move(files.class_names)};
  info.statistics = std::move(statistics);
  return {.train = read_cifar(kind, files.train, info),
          .test = read_cifar(kind, files.test, info),
          .validation = {}};
}

Splits open_cifar10(const DataOptions& options) {
  return open_cifar(CifarKind::cifar10, options, {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}});
}
Splits open_cifar100(const DataOptions& options) {
  return open_cifar(CifarKind::cifar100, options, {{0.5071F, 0.4865F, 0.4409F}, {0.2673F, 0.2564F, 0.2762F}});
}

Splits open_idx(const DataOptions& options) {
  IdxFiles files{{options.train_images, options.train_labels}, {options.test_images, options.test_labels}};
  const std::array<fs::path*, 4> named = {&files.train.images, &files.train.labels, &files.test.images,
                                          &files.test.labels};
  const auto given = std::ranges::count_if(named, [](const fs::path* file) { return !file->empty(); });
  if (given == 0) {
    require_path(options, "the folder of train-images-idx3-ubyte and its three companions");
    files = find_idx_files(options.path,
                           "; other names can be given as data.train_images, data.train_labels, "
                           "data.test_images and data.test_labels");
  } else {
    require(given == 4, "data",
            "{} of train_images, train_labels, test_images and test_labels are given, expected none or all",
            given);
    constexpr std::array kKeys{"data.train_images", "data.train_labels", "data.test_images",
                               "data.test_labels"};
    for (std::size_t i = 0; i < named.size(); ++i) {
      *named[i] = options.path / *named[i];
      require(fs::exists(*named[i]), kKeys[i], "{}: there is no such file", named[i]->string());
    }
  }
  const auto train =
      read_idx_dataset(files.train, {.name = "idx", .classes = options.classes}, options.layout);
  train->set_statistics(statistics_of(*train));
  const auto test = read_idx_dataset(files.test, train->info(), options.layout);
  require(test->info().sample_shape == train->info().sample_shape, files.test.images.string(),
          "has images of shape {}, the training split of {}", to_string(test->info().sample_shape),
          to_string(train->info().sample_shape));
  return {.train = train, .test = test, .validation = {}};
}

Splits open_npy(const DataOptions& options) {
  require_path(options, "a .npz file, or a folder of .npy files");
  const ArraySplits arrays =
      read_array_splits(options.path, {.name = "npy", .classes = options.classes}, options.layout);
  const auto train = std::dynamic_pointer_cast<const InMemoryDataset>(arrays.train);
  Splits splits{.train = arrays.train, .test = arrays.test, .validation = arrays.validation};
  if (!splits.test) {
    const SplitPair pair =
        split_by_class(train, labels_of(*train), options.test_fraction, options.split_seed);
    splits.train = pair.first;
    splits.test = pair.second;
  }
  return splits;
}

DatasetPtr guarded(const DatasetPtr& dataset, const DataOptions& options) {
  if (!options.skip_bad_samples) return dataset;
  return std::make_shared<SkipUnreadable>(dataset, options.max_bad_samples, options.report);
}

fs::path first_folder(const fs::path& root, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (files::kind_of(root / name) == files::Kind::folder) return root / name;
  }
  return {};
}

Splits open_image_folder(const DataOptions& options) {
  require_path(options, "a folder with train/ and test/ (or val/), or with one subfolder per class");
  const int channels = options.channels == 0 ? 3 : static_cast<int>(options.channels);
  require(channels == 1 || channels == 3, "data.channels", "is {}, images of a folder have 3 or 1",
          options.channels);
  Splits splits{.train = {}, .test = {}, .validation = {}, .image_size = options.image_size};
  if (splits.image_size == 0) splits.image_size = kDefaultImageSize;
  const bool check = !options.skip_bad_samples;  // else they are skipped, and counted, as they are read
  const fs::path train = first_folder(options.path, {"train"});
  if (train.empty()) {
    const auto all = std::make_shared<ImageFolder>(options.path, channels, std::vector<std::string>{}, check,
                                                   options.image_memory);
    const SplitPair pair = split_by_class(all, all->labels(), options.test_fraction, options.split_seed);
    splits.train = guarded(pair.first, options);
    splits.test = guarded(pair.second, options);
    return splits;
  }
  const fs::path test = first_folder(options.path, {"test"});
  const fs::path validation = first_folder(options.path, {"val", "valid", "validation"});
  require(!test.empty() || !validation.empty(), options.path.string(),
          "has train/, but neither test/ nor val/");
  const auto train_set =
      std::make_shared<ImageFolder>(train, channels, std::vector<std::string>{}, check, options.image_memory);
  const auto held_out = [&](const fs::path& folder) {
    return guarded(std::make_shared<ImageFolder>(folder, channels, train_set->info().class_names, check,
                                                 options.image_memory),
                   options);
  };
  splits.train = guarded(train_set, options);
  splits.test = held_out(test.empty() ? validation : test);
  if (!test.empty() && !validation.empty()) splits.validation = held_out(validation);
  return splits;
}

Splits open_synthetic(const DataOptions& options) {
  const auto or_default = [](Index value, Index standard) { return value ? value : standard; };
  const Index side = or_default(options.image_size, 32);
  SyntheticOptions synthetic{.count = or_default(options.train_size, 5000) + options.validation_size,
                             .classes = or_default(options.classes, 10),
                             .height = side,
                             .width = side,
                             .channels = or_default(options.channels, 3),
                             .noise = options.noise,
                             .seed = options.split_seed};
  const auto train = make_synthetic(synthetic);
  train->set_statistics(statistics_of(*train, 1000));
  synthetic.count = or_default(options.test_size, 1000);
  synthetic.split = 1;
  const auto test = make_synthetic(synthetic);
  test->set_statistics(train->info().statistics);
  return {.train = train, .test = test, .validation = {}};
}

// Takes the validation samples from the training split where the files have none, then applies the sizes
// asked for.
void apply_sizes(const DataOptions& options, Splits& splits) {
  if (!splits.validation && options.validation_size > 0) {
    const Index size = splits.train->size();
    require(options.validation_size < size, "data.validation_size",
            "is {}, the training split has {} samples", options.validation_size, size);
    std::vector<std::uint32_t> order = permutation(size, options.split_seed, 2);
    const auto cut = order.begin() + options.validation_size;
    std::vector<std::uint32_t> held_out(order.begin(), cut), rest(cut, order.end());
    std::ranges::sort(held_out);
    std::ranges::sort(rest);
    splits.validation = std::make_shared<Subset>(splits.train, std::move(held_out));
    splits.train = std::make_shared<Subset>(splits.train, std::move(rest));
  }
  splits.train = limited(splits.train, options.train_size, options.split_seed);
  splits.validation = limited(splits.validation, options.validation_size, options.split_seed);
  splits.test = limited(splits.test, options.test_size, options.split_seed);
}

// What is wrong with the path itself is said of the key that names it.
Splits open_path(const DatasetEntry& entry, const DataOptions& options) {
  const std::string path = options.path.string(), place = fmt::format("[{}] ", path);
  try {
    return entry.open(options);
  } catch (const fs::filesystem_error& error) {
    throw UserError("data.path",
                    fmt::format("{}: cannot be read: {}", error.path1().string(), error.code().message()));
  } catch (const UserError& error) {
    const std::string_view what = error.what();
    if (path.empty() || !what.starts_with(place)) throw;
    throw UserError("data.path", fmt::format("{}: {}", path, what.substr(place.size())));
  }
}

}  // namespace

const std::vector<DatasetEntry>& all_datasets() {
  static const std::vector<DatasetEntry> table = {
      {"fashion_mnist", "60,000 + 10,000 grey images of clothes, 28x28, 10 classes",
       "Debian package dataset-fashion-mnist (/usr/share/datasets/fashion-mnist), or data.path",
       open_fashion_mnist},
      {"digits", "1,797 handwritten digits, 8x8, 10 classes; comes with Tandem",
       "data/digits of the sources or the installation, $TANDEM_DATA_DIR/digits, or data.path", open_digits},
      {"cifar10", "50,000 + 10,000 photographs, 32x32, 10 classes (binary version)",
       "data.path: the folder of the unpacked cifar-10-binary.tar.gz", open_cifar10},
      {"cifar100", "50,000 + 10,000 photographs, 32x32, 100 classes (binary version)",
       "data.path: the folder of the unpacked cifar-100-binary.tar.gz", open_cifar100},
      {"idx", "images and labels in IDX files, plain or .gz, named as MNIST's",
       "data.path: the folder; data.train_images, … for other names", open_idx},
      {"image_folder", "JPEG and PNG files, one subfolder per class",
       "data.path: the folder, with train/ and test/ (or val/) or split by test_fraction", open_image_folder},
      {"npy",
       "NumPy arrays: images [N,H,W,C], [N,H,W] or, with data.layout=nchw, [N,C,H,W], features [N,D] or, as "
       "integers of more than 8 bits, indices; and labels",
       "data.path: a .npz file or a folder of .npy files, with x_train, y_train, x_test, y_test (or "
       "train_images, …)",
       open_npy},
      {"synthetic", "learnable random patterns made in memory",
       "nowhere: data.train_size, image_size, classes, noise", open_synthetic},
  };
  return table;
}

Splits open_dataset(const DataOptions& options) {
  const auto& table = all_datasets();
  const auto entry = std::ranges::find(table, options.name, &DatasetEntry::name);
  if (entry == table.end()) {
    std::vector<std::string> names;
    for (const DatasetEntry& known : table) names.push_back(known.name);
    throw UserError("data.name", fmt::format("there is no data set \"{}\"{}", options.name,
                                             did_you_mean(options.name, names)));
  }
  for (const Index size : {options.train_size, options.validation_size, options.test_size, options.image_size,
                           options.channels, options.classes, options.max_bad_samples}) {
    require(size >= 0, "data", "a size or count is {}, expected at least 0", size);
  }
  Splits splits = open_path(*entry, options);
  apply_sizes(options, splits);
  return splits;
}

Pipeline training_pipeline(const Splits& splits, std::span<const TransformSpec> augment) {
  const DatasetInfo& info = splits.train->info();
  return Pipeline(info, with_sizes(info, splits.image_size, augment, false));
}

Pipeline evaluation_pipeline(const Splits& splits, std::span<const TransformSpec> augment) {
  const DatasetInfo& info = splits.train->info();
  return Pipeline(info, with_sizes(info, splits.image_size, augment, true));
}

}  // namespace tandem::datasets
