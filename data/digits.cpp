#include "data/digits.h"

#include "core/error.h"
#include "data/decorators.h"
#include "data/idx.h"
#include "data/resources.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

constexpr const char* kImages = "digits-images-idx3-ubyte.gz";
constexpr const char* kLabels = "digits-labels-idx1-ubyte.gz";

fs::path find_folder() {
  if (const auto folder = find_shipped("digits", kImages)) return *folder;
  std::string tried;
  for (const fs::path& place : shipped_places("digits"))
    tried += (tried.empty() ? "" : ", ") + place.string();
  throw files::NotThere(
      "digits",
      fmt::format("{} is not in {}; set TANDEM_DATA_DIR to the folder that holds digits/", kImages, tried));
}

}  // namespace

std::shared_ptr<InMemoryDataset> read_digits(const fs::path& folder) {
  const fs::path place = folder.empty() ? find_folder() : folder;
  constexpr auto kExpected = "{}, expected {} and {} in it";
  const files::Kind kind = files::kind_of(place);
  files::require_there(kind != files::Kind::absent, place.string(), kExpected, files::no_folder(place),
                       kImages, kLabels);
  require(kind == files::Kind::folder, place.string(), kExpected, files::no_folder(place), kImages, kLabels);
  DatasetInfo info{.name = "digits", .classes = 10};
  for (int digit = 0; digit < 10; ++digit) info.class_names.push_back(std::to_string(digit));
  info.statistics = {{0.3053F}, {0.3759F}};
  return read_idx_dataset({place / kImages, place / kLabels}, std::move(info));
}

Splits open_digits(const DigitsOptions& own, const SetOptions& common) {
  const auto all = read_digits(common.place());
  const SplitPair pair =
      split_by_class(all, all->labels().to_vector<std::int64_t>(), own.test_fraction, common.seed());
  return {.train = pair.first, .test = pair.second, .validation = {}};
}

LabelledRegistry::Entry digits_entry() {
  options::Describe<DigitsOptions> keys;
  return LabelledRegistry::entry<DigitsOptions>(
      "digits", "1,797 handwritten digits, 8x8, 10 classes; comes with Tandem", describe_test_fraction(keys),
      [](const DigitsOptions& own, const SetOptions& common) { return open_digits(own, common); });
}

}  // namespace tandem::datasets
