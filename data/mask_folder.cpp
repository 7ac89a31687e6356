#include "data/mask_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <exception>
#include <numeric>

#include "core/cpu/parallel.h"
#include "core/error.h"
#include "data/decorators.h"
#include "data/limits.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

constexpr Index kMostClasses = 255;      // 0 to 254; 255 does not count
constexpr std::size_t kMostListed = 20;  // unreadable masks
constexpr std::string_view kLayout =
    "; expected train/images, train/masks, test/images and test/masks, or images and masks; a mask is a PNG "
    "with its image's name";

struct Pairs {
  std::vector<fs::path> images, masks;
  PassedOver passed_over;
};

Pairs pairs_in(const fs::path& folder) {
  const fs::path images = folder / "images", masks = folder / "masks";
  for (const fs::path& part : {images, masks})
    require(files::kind_of(part) == files::Kind::folder, part.string(), "{}{}", files::no_folder(part),
            kLayout);
  Pairs pairs;
  pairs.images = image_files_below(images, true, &pairs.passed_over);
  require(!pairs.images.empty(), images.string(), "has no .jpg, .jpeg or .png file in it");
  for (const fs::path& image : pairs.images) {
    const fs::path mask = (masks / image.lexically_relative(images)).replace_extension(".png");
    require(files::kind_of(mask) != files::Kind::absent, image.string(), "has no mask: there is no {}",
            mask.string());
    pairs.masks.push_back(mask);
  }
  return pairs;
}

// The result of `read`; nothing if it fails and samples may be skipped.
template <class Read>
Tensor unless_skipped(const SetOptions& common, const Read& read) {
  try {
    return read();
  } catch (const UserError&) {
    if (!common.skip_bad_samples) throw;
    return {};
  }
}

// Pixel values that occur in the masks of a folder. Throws for unreadable masks, unless samples may be
// skipped.
std::bitset<256> values_in(const std::vector<fs::path>& masks, const SetOptions& common) {
  const ImageReading reading = common.image_reading();
  std::vector<std::bitset<256>> found(masks.size());
  std::vector<std::exception_ptr> errors(masks.size());
  cpu::parallel_for(true, masks.size(), [&](std::size_t i) {
    try {
      const Tensor mask = read_indices(masks[i], reading);
      const std::uint8_t* value = mask.data<std::uint8_t>();
      for (Index p = 0; p < mask.numel(); ++p) found[i].set(value[p]);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  });
  std::vector<std::string> reasons;
  for (const std::exception_ptr& error : errors) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const UserError& unreadable) {
      reasons.emplace_back(unreadable.what());
    }
  }
  const std::size_t all = reasons.size();
  reasons.resize(std::min(all, kMostListed));
  require(all == 0 || (common.skip_bad_samples && all < masks.size()), "",
          "{}{}; data.skip_bad_samples=true takes the next sample", fmt::join(reasons, "; "),
          all > kMostListed ? fmt::format("; {} more masks cannot be read", all - kMostListed) : "");
  return std::accumulate(found.begin(), found.end(), std::bitset<256>{},
                         [](const auto& a, const auto& b) { return a | b; });
}

// Number of classes in the training masks. Refuses grey levels that are unlikely to be classes.
Index classes_in(const fs::path& folder, const MaskFolderOptions& own, const SetOptions& common) {
  std::bitset<256> found = values_in(pairs_in(folder).masks, common);
  const bool ignores = own.ignore_index < 256 && found.test(static_cast<std::size_t>(own.ignore_index));
  if (ignores) found.reset(static_cast<std::size_t>(own.ignore_index));
  std::string listed;
  Index highest = 0, count = 0;
  for (Index value = 0; value < 256; ++value) {
    if (!found.test(static_cast<std::size_t>(value))) continue;
    highest = value;
    if (++count <= 8) listed += fmt::format("{}{}", listed.empty() ? "" : ", ", value);
  }
  if (count > 8) listed += ", …";
  const std::string masks = (folder / "masks").string();
  require(count > 0, masks, "holds only {}, which is ignored (data.ignore_index)", own.ignore_index);
  require(count > 1 || !ignores, masks,
          "holds only the values {0} and {1}, and {1} is ignored (data.ignore_index); if they are the two "
          "classes, set data.values [{2}, {3}]",
          listed, own.ignore_index, std::min(highest, own.ignore_index), std::max(highest, own.ignore_index));
  require(highest < 2 * count + 8 && highest < kMostClasses, masks,
          "holds the values {}, too few to be the classes 0 to {}; list the values of the classes in "
          "data.values, or set data.classes",
          listed, highest);
  return highest + 1;
}

// Refuses masks of 0 and 255 for two classes, because 255 is ignored. Reads masks until one holds class 1.
void refuse_black_and_white(const fs::path& folder, const SetOptions& common) {
  bool white = false;
  for (const fs::path& mask : pairs_in(folder).masks) {
    const Tensor pixels = unless_skipped(common, [&] { return read_indices(mask, common.image_reading()); });
    if (!pixels.defined()) continue;
    const std::uint8_t* const value = pixels.data<std::uint8_t>();
    for (Index p = 0; p < pixels.numel(); ++p) {
      if (value[p] != 0 && value[p] != kIgnored) return;
      white |= value[p] == kIgnored;
    }
  }
  require(!white, (folder / "masks").string(),
          "holds only 0 and 255, and 255 is ignored (data.ignore_index); if it is the second class, set "
          "data.values [0, 255]");
}

Index classes_of(const fs::path& train, const MaskFolderOptions& own, const SetOptions& common) {
  const auto named = static_cast<Index>(own.class_names.size()),
             listed = static_cast<Index>(own.values.size());
  const Index classes = own.classes > 0 ? own.classes
                        : named > 0     ? named
                        : listed > 0    ? listed
                                        : classes_in(train, own, common);
  require(named == 0 || named == classes, "data.class_names", "has {} names for {} classes", named, classes);
  require(listed == 0 || listed == classes, "data.values", "has {} values for {} classes", listed, classes);
  const bool scanned = own.classes == 0 && named == 0;
  if (classes == 2 && listed == 0 && !scanned && own.ignore_index == kIgnored)
    refuse_black_and_white(train, common);
  return classes;
}

Tensor first_image(const fs::path& train, const MaskFolderOptions& own, const SetOptions& common) {
  const auto channels = static_cast<int>(own.channels);
  const std::vector<fs::path> images = pairs_in(train).images;
  for (const fs::path& file : images) {
    const Tensor image =
        unless_skipped(common, [&] { return read_image(file, channels, common.image_reading()); });
    if (image.defined()) return image;
  }
  throw UserError((train / "images").string(),
                  fmt::format("none of its {} images can be read", images.size()));
}

// Info of the training images.
DatasetInfo info_of(const fs::path& train, const MaskFolderOptions& own, const SetOptions& common) {
  DatasetInfo info{.name = "masks", .sample_shape = {0, 0, own.channels}};
  info.classes = classes_of(train, own, common);
  info.class_names = own.class_names;
  info.class_values = own.values;
  for (Index c = 0; own.values.empty() && c < info.classes; ++c) info.class_values.push_back(c);
  info.as_stored = !common.exif_orientation;
  if (own.image_size == 0 && !own.any_size) info.sample_shape = first_image(train, own, common).shape();
  // The statistics of ImageNet, customary for photographs.
  info.statistics = own.channels == 3 ? ChannelStatistics{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}
                                      : ChannelStatistics{{0.449F}, {0.226F}};
  return info;
}

Splits divided(const DatasetPtr& all, const fs::path& root, double fraction, std::uint64_t seed) {
  const Index count = all->size();
  require(count >= 2, root.string(), "has one image, expected at least two, one of them for testing");
  const auto kept = std::clamp<Index>(std::llround(fraction * static_cast<double>(count)), 1, count - 1);
  std::vector<std::uint32_t> order = permutation(count, seed, 3);
  std::vector<std::uint32_t> test(order.begin(), order.begin() + kept),
      train(order.begin() + kept, order.end());
  std::ranges::sort(test);
  std::ranges::sort(train);
  return {.train = std::make_shared<Subset>(all, std::move(train)),
          .test = std::make_shared<Subset>(all, std::move(test)),
          .validation = {}};
}

Splits open_masks(const MaskFolderOptions& own, const SetOptions& common) {
  require_path(common, "masks", "a folder with train/ and test/, each with images/ and masks/");
  const fs::path root = common.place();
  const files::Kind kind = files::kind_of(root);
  files::require_there(kind != files::Kind::absent, root.string(), "{}{}", files::no_folder(root), kLayout);
  require(kind == files::Kind::folder, root.string(), "{}{}", files::no_folder(root), kLayout);
  const fs::path folder = first_folder(root, {"train"}), train = folder.empty() ? root : folder;
  const DatasetInfo info = info_of(train, own, common);
  const MaskValues values(own, info.classes);
  PassedOver passed_over;
  const auto opened = [&](const fs::path& part) -> DatasetPtr {
    const auto set = std::make_shared<MaskFolder>(part, info, values, common.image_reading());
    passed_over += set->passed_over();
    return set;
  };
  if (folder.empty()) {
    Splits splits = divided(opened(root), root, own.test_fraction, common.seed());
    splits.image_size = own.image_size;
    splits.notes = passed_over.notes();
    return splits;
  }
  const fs::path test = first_folder(root, {"test"});
  const fs::path validation = first_folder(root, {"val", "valid", "validation"});
  require(!test.empty() || !validation.empty(), root.string(), "has train/, but neither test/ nor val/");
  Splits splits{.train = opened(train), .test = opened(test.empty() ? validation : test), .validation = {}};
  if (!test.empty() && !validation.empty()) splits.validation = opened(validation);
  splits.image_size = own.image_size;
  splits.notes = passed_over.notes();
  return splits;
}

}  // namespace

MaskValues::MaskValues(const MaskFolderOptions& options, Index classes) {
  classes_.fill(kNoClass);
  for (Index c = 0; c < classes; ++c) {
    const Index value = options.values.empty() ? c : options.values[static_cast<std::size_t>(c)];
    std::int16_t& place = classes_[static_cast<std::size_t>(value)];
    require(place == kNoClass, "data.values", "{} stands for two classes, {} and {}", value, place, c);
    place = static_cast<std::int16_t>(c);
  }
  if (options.ignore_index > 255) return;
  std::int16_t& ignored = classes_[static_cast<std::size_t>(options.ignore_index)];
  // The default value only marks a value without a class as ignored.
  require(ignored == kNoClass || options.ignore_index == kIgnored, "data.ignore_index",
          "{} stands for class {}, too", options.ignore_index, ignored);
  if (ignored == kNoClass) ignored = kIgnored;
}

MaskFolder::MaskFolder(const fs::path& folder, DatasetInfo info, const MaskValues& values,
                       const ImageReading& reading)
    : values_(values), reading_(reading) {
  info_ = std::move(info);
  info_.masks = true;
  Pairs pairs = pairs_in(folder);
  images_ = std::move(pairs.images);
  masks_ = std::move(pairs.masks);
  passed_over_ = std::move(pairs.passed_over);
  require(size() <= kMaxSamples, folder.string(), "{} samples, at most {} can be numbered", size(),
          kMaxSamples);
}

Sample MaskFolder::get(Index index) const {
  const auto at = static_cast<std::size_t>(index);
  const Shape& sample = info_.sample_shape;
  Sample pair{.image = read_image(images_[at], static_cast<int>(sample[2]), reading_),
              .label = 0,
              .mask = read_indices(masks_[at], reading_)};
  const Index height = pair.image.size(0), width = pair.image.size(1);
  require(pair.mask.size(0) == height && pair.mask.size(1) == width, masks_[at].string(),
          "has {}x{} pixels, its image {}x{}{}", pair.mask.size(1), pair.mask.size(0), width, height,
          pair.mask.size(1) == height && pair.mask.size(0) == width && reading_.upright
              ? "; one of them lies on its side: each is turned by its own EXIF orientation; set "
                "data.exif_orientation false to keep both as stored"
              : "");
  require(sample[0] == 0 || (height == sample[0] && width == sample[1]), images_[at].string(),
          "has {}x{} pixels, the first image {}x{}; set data.image_size to resize all images, or "
          "data.any_size to resize them in data.augment",
          width, height, sample[1], sample[0]);
  std::uint8_t* value = pair.mask.data<std::uint8_t>();
  for (Index i = 0; i < pair.mask.numel(); ++i) {
    const std::int16_t stands_for = values_[value[i]];
    require(stands_for != MaskValues::kNoClass, masks_[at].string(),
            "holds {} in row {}, column {}, which is none of the {} classes", value[i], i / width, i % width,
            info_.classes);
    value[i] = static_cast<std::uint8_t>(stands_for);
  }
  return pair;
}

LabelledRegistry::Entry masks_entry() {
  using Options = MaskFolderOptions;
  return LabelledRegistry::entry<Options>(
      "masks", "folders of images and of PNG files with the class of every pixel",
      options::Describe<Options>()
          .key("channels", &Options::channels, "3, or 1 for grey", {.min = 1, .max = 3})
          .key("classes", &Options::classes, "number of classes; 0: those in the training masks",
               {.min = 0, .max = static_cast<double>(kMostClasses)})
          .key("class_names", &Options::class_names, "names of the classes, in order")
          .key("values", &Options::values, "mask value of each class, such as [0, 255]; default: its number",
               {.min = 0, .max = 255})
          .key("ignore_index", &Options::ignore_index,
               "mask value of pixels that loss and metrics ignore; 256: none", {.min = 0, .max = 256})
          .key("image_size", &Options::image_size,
               "side in pixels to which images and masks are resized, without keeping proportions; 0: all "
               "have one size and keep it",
               {.min = 0, .max = 65536})
          .key("any_size", &Options::any_size,
               "images differ in size, and data.augment crops or resizes them to one")
          .key("test_fraction", &Options::test_fraction,
               "share of the images kept for testing, if there is no test split",
               {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true})
          .rule("channels", "must be 1 or 3", [](const Options& o) { return o.channels != 2; }),
      open_masks);
}

}  // namespace tandem::datasets
