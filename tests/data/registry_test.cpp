// Data sets by name, the real ones among them.
#include "data/registry.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "data/decorators.h"
#include "data/digits.h"
#include "data/fashion_mnist.h"
#include "data/loader.h"
#include "data/synthetic.h"
#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

std::map<std::int64_t, int> class_counts(const Dataset& set) {
  std::map<std::int64_t, int> counts;
  for (Index i = 0; i < set.size(); ++i) ++counts[set.get(i).label];
  return counts;
}

// Share of `test` whose nearest class mean, over normalised pixels, is right.
double nearest_mean_accuracy(const Dataset& train, const Dataset& test) {
  const auto numel = static_cast<std::size_t>(train.info().sample_shape.numel());
  std::vector<std::vector<double>> means(static_cast<std::size_t>(train.info().classes),
                                         std::vector<double>(numel));
  std::vector<double> counts(means.size());
  for (Index i = 0; i < train.size(); ++i) {
    const Sample sample = train.get(i);
    const auto label = static_cast<std::size_t>(sample.label);
    const auto pixels = sample.image.to_vector<double>();
    for (std::size_t p = 0; p < numel; ++p) means[label][p] += pixels[p];
    ++counts[label];
  }
  int right = 0;
  for (Index i = 0; i < test.size(); ++i) {
    const Sample sample = test.get(i);
    const auto pixels = sample.image.to_vector<double>();
    std::vector<double> distances;
    for (std::size_t k = 0; k < means.size(); ++k) {
      double sum = 0;
      for (std::size_t p = 0; p < numel; ++p) sum += std::pow(pixels[p] - means[k][p] / counts[k], 2);
      distances.push_back(sum);
    }
    right += std::min_element(distances.begin(), distances.end()) - distances.begin() == sample.label;
  }
  return right / static_cast<double>(test.size());
}

}  // namespace

TEST_CASE("the digits come with the sources", "[digits]") {
  const auto all = read_digits();
  CHECK(all->size() == 1797);
  CHECK(all->info().sample_shape == Shape{8, 8, 1});
  CHECK(all->info().class_names.at(9) == "9");
  const auto counts = class_counts(*all);
  CHECK(counts.at(0) == 178);
  CHECK(counts.at(3) == 183);
  CHECK(counts.at(8) == 174);
  // The first sample, a zero; pixels 0…16 became 0…255.
  CHECK(all->get(0).label == 0);
  CHECK(all->get(0).image.rows(0, 1).to_vector<int>() == std::vector<int>{0, 0, 80, 207, 143, 16, 0, 0});
  const ChannelStatistics measured = statistics_of(*all);
  CHECK(all->info().statistics.mean[0] == Approx(measured.mean[0]).margin(1e-4));
  CHECK(all->info().statistics.stddev[0] == Approx(measured.stddev[0]).margin(1e-4));

  const Splits splits = open_dataset("digits");
  CHECK(splits.train->size() + splits.test->size() == 1797);
  CHECK(splits.test->size() == Approx(359).margin(5));
  for (const auto& [label, count] : class_counts(*splits.test)) CHECK(count == Approx(36).margin(1));
  CHECK(nearest_mean_accuracy(*splits.train, *splits.test) > 0.85);
  CHECK_THROWS_WITH(read_digits("/nonexistent"),
                    Contains("digits-labels-idx1-ubyte.gz") || Contains("digits-images"));
}

TEST_CASE("Fashion-MNIST from its package", "[fashion_mnist]") {
  if (!fs::exists(kFashionMnistFolder)) {
    WARN("skipped: Debian's package dataset-fashion-mnist is not installed");
    return;
  }
  const FashionMnist sets = read_fashion_mnist();
  CHECK(sets.train->size() == 60000);
  CHECK(sets.test->size() == 10000);
  CHECK(sets.train->info().sample_shape == Shape{28, 28, 1});
  CHECK(sets.train->info().class_names.at(sets.train->get(0).label) == "Ankle boot");
  for (const auto& [label, count] : class_counts(*sets.train)) CHECK(count == 6000);
  for (const auto& [label, count] : class_counts(*sets.test)) CHECK(count == 1000);
  const ChannelStatistics measured = statistics_of(*sets.train, 60000);
  CHECK(sets.train->info().statistics.mean[0] == Approx(measured.mean[0]).margin(5e-5));
  CHECK(sets.train->info().statistics.stddev[0] == Approx(measured.stddev[0]).margin(5e-5));

  // Normalised as promised: mean 0, deviation 1.
  Loader loader(sets.train, Pipeline(sets.train->info()), {.batch_size = 10000, .shuffle = true});
  double sum = 0, squares = 0;
  const Tensor images = (*loader.next())["image"];
  for (const float value : images.to_vector<float>()) sum += value, squares += value * value;
  CHECK(sum / static_cast<double>(images.numel()) == Approx(0).margin(0.02));
  CHECK(squares / static_cast<double>(images.numel()) == Approx(1).margin(0.02));
}

TEST_CASE("missing data names the package and the file", "[fashion_mnist]") {
  CHECK_THROWS_WITH(
      open_dataset("fashion_mnist", {.path = "/nonexistent"}),
      Contains("/nonexistent") && Contains("dataset-fashion-mnist") && Contains("train-images-idx3-ubyte"));
  const TempFolder folder;
  CHECK_THROWS_WITH(open_dataset("fashion_mnist", {.path = folder.path()}),
                    Contains("train-images-idx3-ubyte") && Contains("apt install dataset-fashion-mnist"));
}

TEST_CASE("synthetic data is reproducible and can be learnt", "[synthetic]") {
  const SyntheticOptions options{.count = 400, .classes = 5, .height = 12, .width = 16, .channels = 3};
  const auto a = make_synthetic(options), b = make_synthetic(options);
  CHECK(a->images().to_vector<std::uint8_t>() == b->images().to_vector<std::uint8_t>());
  SyntheticOptions other = options;
  other.split = 1;
  const auto test = make_synthetic(other);
  CHECK(a->images().to_vector<std::uint8_t>() != test->images().to_vector<std::uint8_t>());
  CHECK(nearest_mean_accuracy(*a, *test) > 0.9);
  other.seed = 1;
  CHECK(nearest_mean_accuracy(*a, *make_synthetic(other)) < 0.6);
  CHECK_THROWS_WITH(make_synthetic({.count = 0}), Contains("extent is 0"));
  CHECK_THROWS_WITH(make_synthetic({.count = 1 << 22, .height = 1000}), Contains("limit"));
}

TEST_CASE("a split by class leaves something of every class on both sides", "[registry]") {
  for (const Index members : {2, 3, 10}) {
    const auto all = make_synthetic({.count = 4 * members, .classes = 4, .height = 2, .width = 2});
    std::vector<std::int64_t> labels;
    for (Index i = 0; i < all->size(); ++i) labels.push_back(all->get(i).label);
    for (const double fraction : {0.01, 0.3, 0.99}) {
      const SplitPair pair = split_by_class(all, labels, fraction, 5);
      for (std::int64_t label = 0; label < 4; ++label) {
        const int first = class_counts(*pair.first)[label], second = class_counts(*pair.second)[label];
        CHECK(first + second == members);
        CHECK(first >= 1);
        CHECK(second >= 1);
        CHECK(std::abs(second - fraction * static_cast<double>(members)) <= 1.0);
      }
    }
  }
}

TEST_CASE("data sets open by name, with sizes and splits", "[registry]") {
  CHECK_THROWS_WITH(open_dataset("fashion-mnist"), Contains("did you mean \"fashion_mnist\"?"));
  CHECK_THROWS_WITH(open_dataset("cifar10"), Contains("data.path") && Contains("cifar10 needs a path"));
  CHECK_THROWS_WITH(open_dataset("synthetic", {.train_size = -1}), Contains("-1"));
  for (const auto& entry : labelled_sets().entries()) CHECK(!entry.help.empty());
  const Splits splits = open_dataset("synthetic", {.train_size = 100, .validation_size = 30, .test_size = 20},
                                     {{"image_size", 6}, {"channels", 1}, {"classes", 3}});
  CHECK(splits.train->size() == 100);
  CHECK(splits.validation->size() == 30);
  CHECK(splits.test->size() == 20);
  CHECK(splits.train->info().sample_shape == Shape{6, 6, 1});
  CHECK(splits.train->info().classes == 3);
  const Splits digits = open_dataset("digits", {.train_size = 500, .validation_size = 100});
  CHECK(digits.train->size() == 500);
  CHECK(digits.validation->size() == 100);
  CHECK_THROWS_WITH(open_dataset("digits", {.validation_size = 5000}), Contains("validation_size"));
  CHECK_THROWS_WITH(open_dataset("digits", {}, {{"noise", 0.1}}), Contains("noise"));
}

TEST_CASE("IDX, CIFAR and NumPy data sets open by name", "[registry]") {
  const TempFolder folder;
  const auto labels = [](std::uint32_t count) {
    Bytes data(count);
    for (std::uint32_t i = 0; i < count; ++i) data[i] = static_cast<std::uint8_t>(i % 3);
    return idx_bytes(0x08, {count}, data);
  };
  write_file(folder / "train-images-idx3-ubyte", idx_bytes(0x08, {6, 3, 3}, random_bytes(54, 1)));
  write_file(folder / "train-labels-idx1-ubyte", labels(6));
  write_gz(folder / "t10k-images-idx3-ubyte.gz", idx_bytes(0x08, {3, 3, 3}, random_bytes(27, 2)));
  write_gz(folder / "t10k-labels-idx1-ubyte.gz", labels(3));
  const Splits idx = open_dataset("idx", {.path = folder.path()});
  CHECK(idx.train->size() == 6);
  CHECK(idx.test->size() == 3);
  CHECK(idx.test->info().classes == 3);
  const ChannelStatistics measured = statistics_of(*idx.train);
  CHECK(idx.test->info().statistics.mean == measured.mean);
  const Splits named = open_dataset("idx", {.path = folder.path()},
                                    {{"train_images", "t10k-images-idx3-ubyte.gz"},
                                     {"train_labels", "t10k-labels-idx1-ubyte.gz"},
                                     {"test_images", "train-images-idx3-ubyte"},
                                     {"test_labels", "train-labels-idx1-ubyte"}});
  CHECK(named.train->size() == 3);
  CHECK_THROWS_WITH(open_dataset("idx", {.path = folder.path()}, {{"train_images", "x"}}),
                    Contains("none or all"));
  write_file(folder / "other", idx_bytes(0x08, {3, 2, 3}, Bytes(18)));
  CHECK_THROWS_WITH(open_dataset("idx", {.path = folder.path()},
                                 {{"train_images", "train-images-idx3-ubyte"},
                                  {"train_labels", "train-labels-idx1-ubyte"},
                                  {"test_images", "other"},
                                  {"test_labels", "t10k-labels-idx1-ubyte.gz"}}),
                    Contains("other") && Contains("[2,3,1]"));

  write_file(folder / "images.npy",
             npy_bytes(npy_header("|u1", false, "(20, 2, 2, 3)"), random_bytes(240, 3)));
  Bytes classes(20);
  for (std::size_t i = 0; i < 20; ++i) classes[i] = static_cast<std::uint8_t>(i % 2);
  write_file(folder / "labels.npy", npy_bytes(npy_header("|u1", false, "(20,)"), classes));
  const Splits npy = open_dataset("npy", {.path = folder.path()}, {{"test_fraction", 0.2}});
  CHECK(npy.train->size() == 16);
  CHECK(npy.test->size() == 4);
  CHECK(npy.train->info().statistics.mean.size() == 3);

  for (int i = 1; i <= 6; ++i) {
    Bytes record = random_bytes(3073, static_cast<std::uint32_t>(i));
    record[0] = static_cast<std::uint8_t>(i);
    write_file(folder / (i == 6 ? "test_batch.bin" : "data_batch_" + std::to_string(i) + ".bin"), record);
  }
  const Splits cifar = open_dataset("cifar10", {.path = folder.path()});
  CHECK(cifar.train->size() == 5);
  CHECK(cifar.test->get(0).label == 6);
  CHECK(cifar.train->info().statistics.stddev.size() == 3);
}
