#include "data/digits.h"

#include <cstdlib>
#include <vector>

#include "core/error.h"
#include "data/decorators.h"
#include "data/idx.h"
#include "files/input.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

constexpr const char* kImages = "digits-images-idx3-ubyte.gz";
constexpr const char* kLabels = "digits-labels-idx1-ubyte.gz";

std::vector<fs::path> candidates() {
  std::vector<fs::path> folders;
  if (const char* chosen = std::getenv("TANDEM_DATA_DIR")) folders.push_back(fs::path(chosen) / "digits");
  folders.push_back(fs::path(TANDEM_SOURCE_DIR) / "data" / "digits");
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(program.parent_path().parent_path() / "share" / "tandem" / "data" / "digits");
  folders.push_back(fs::path(TANDEM_INSTALL_DATA_DIR) / "digits");
  return folders;
}

fs::path find_folder() {
  std::string tried;
  for (const fs::path& folder : candidates()) {
    if (files::kind_of(folder / kImages) != files::Kind::absent) return folder;
    tried += (tried.empty() ? "" : ", ") + folder.string();
  }
  throw UserError(
      "digits",
      fmt::format("{} is not in {}; set TANDEM_DATA_DIR to the folder that holds digits/", kImages, tried));
}

}  // namespace

std::shared_ptr<InMemoryDataset> read_digits(const fs::path& folder) {
  const fs::path place = folder.empty() ? find_folder() : folder;
  require(files::kind_of(place) == files::Kind::folder, place.string(), "{}, expected {} and {} in it",
          files::no_folder(place), kImages, kLabels);
  DatasetInfo info{.name = "digits", .classes = 10};
  for (int digit = 0; digit < 10; ++digit) info.class_names.push_back(std::to_string(digit));
  info.statistics = {{0.3053F}, {0.3759F}};
  return read_idx_dataset({place / kImages, place / kLabels}, std::move(info));
}

LabelledFamily::Entry digits_entry() {
  options::Describe<DigitsOptions> keys;
  return LabelledFamily::entry<DigitsOptions>(
      "digits", "1,797 handwritten digits, 8x8, 10 classes; comes with Tandem", describe_test_fraction(keys),
      [](const DigitsOptions& own, const SetOptions& common, const SampleReport&) {
        const auto all = read_digits(common.place());
        const SplitPair pair =
            split_by_class(all, all->labels().to_vector<std::int64_t>(), own.test_fraction, common.seed());
        return Splits{.train = pair.first, .test = pair.second, .validation = {}};
      });
}

}  // namespace tandem::datasets
