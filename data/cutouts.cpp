#include "data/cutouts.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>

#include "core/error.h"
#include "core/random.h"
#include "data/decorators.h"
#include "data/image_file.h"
#include "data/limits.h"
#include "data/transforms/render.h"
#include "files/input.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

constexpr Index kTrainingCutouts = 4800, kTestCutouts = 500;
constexpr Index kMeasuredCutouts = 200;  // scenes whose pixels give the statistics
constexpr std::uint32_t kCutoutStream = 4;
// Photographs are kept at this many times a scene's side, of which a part of at least that side is shown.
constexpr double kPhotographSides = 2.5;
constexpr double kLeastShare = 0.2;  // of a file's pixels that must be see-through for it to be a cut-out

const TensorOptions kBytes{.dtype = DType::u8, .kind = MemoryKind::data};

std::uint8_t rounded(float value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
}

// An image no larger than `most` on its shorter or longer side.
Tensor reduced(const Tensor& image, double most, bool shorter) {
  const Index height = image.size(0), width = image.size(1);
  const auto side = static_cast<double>(shorter ? std::min(height, width) : std::max(height, width));
  if (side <= most) return image;
  const auto extent = [&](Index pixels) {
    return std::max<Index>(1, std::lround(static_cast<double>(pixels) * most / side));
  };
  std::vector<float> values;
  resize_part(image, {0, 0, height, width}, extent(height), extent(width), values);
  const Tensor result = Tensor::empty({extent(height), extent(width), image.size(2)}, kBytes);
  std::ranges::transform(values, result.data<std::uint8_t>(), rounded);
  return result;
}

// Colours multiplied by the opacity, in place: then what is transparent has no colour that resampling could
// spread.
void premultiply(const Tensor& image) {
  std::uint8_t* pixel = image.data<std::uint8_t>();
  for (Index i = 0; i < image.numel(); i += 4, pixel += 4)
    for (int c = 0; c < 3; ++c) pixel[c] = static_cast<std::uint8_t>((pixel[c] * pixel[3] + 127) / 255);
}

bool is_cut_out(const Tensor& image) {
  const std::uint8_t* pixel = image.data<std::uint8_t>();
  Index clear = 0, solid = 0;
  for (Index i = 0; i < image.numel(); i += 4) {
    clear += pixel[i + 3] < 128 ? 1 : 0;
    solid += pixel[i + 3] >= 128 ? 1 : 0;
  }
  return solid > 0 && static_cast<double>(clear) >= kLeastShare * static_cast<double>(clear + solid);
}

// The image of each file, by `read`; absent where that gives none.
template <class Read>
std::vector<Tensor> read_all(const std::vector<fs::path>& files, const Read& read) {
  std::vector<Tensor> images(files.size());
  std::vector<std::exception_ptr> errors(files.size());
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < files.size(); ++i) {
    try {
      images[i] = read(files[i]);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  std::erase_if(images, [](const Tensor& image) { return !image.defined(); });
  return images;
}

std::vector<fs::path> files_of(const fs::path& folder, const char* package, const char* key) {
  require(files::kind_of(folder) == files::Kind::folder, folder.string(),
          "{}; Debian's package {} has such files: apt install {}; or {} names another folder",
          files::no_folder(folder), package, package, key);
  return image_files_below(folder);
}

struct Halves {
  CutoutMaterial train, test;
};

// A share of the images of a kind is for testing, at least one and not all.
void divide(std::vector<Tensor> images, double fraction, std::uint64_t seed, const fs::path& folder,
            std::vector<Tensor>& train, std::vector<Tensor>& test) {
  const auto count = static_cast<Index>(images.size());
  require(count >= 2, folder.string(), "has {} usable images, at least two are needed: one to test on",
          count);
  const auto kept = std::clamp<Index>(std::llround(fraction * static_cast<double>(count)), 1, count - 1);
  const std::vector<std::uint32_t> order = permutation(count, seed, 3);
  for (Index i = 0; i < count; ++i)
    (i < kept ? test : train).push_back(std::move(images[order[static_cast<std::size_t>(i)]]));
}

// Files that only mirror or flip another one are left out.
bool is_variant(const fs::path& file) {
  const std::string stem = file.stem().string();
  return stem.ends_with("_mirror") || stem.ends_with("_flip") || stem.ends_with("_mirror_flip");
}

Halves read_material(const CutoutOptions& own, const SetOptions& common) {
  const fs::path cutouts = common.path ? common.place() : fs::path(kCutoutFolder);
  const fs::path photographs = own.photographs.value_or(kPhotographFolder);
  Halves halves;
  const auto side = static_cast<double>(own.image_size);
  for (const std::string& category : own.categories) {
    std::vector<fs::path> files = files_of(cutouts / category, "tuxpaint-stamps-default", "data.path");
    std::erase_if(files, [](const fs::path& file) { return file.extension() != ".png" || is_variant(file); });
    divide(read_all(files,
                    [&](const fs::path& file) {
                      const Tensor image = read_image(file, 4, common.image_memory());
                      if (!is_cut_out(image)) return Tensor();
                      premultiply(image);
                      return reduced(image, side, false);
                    }),
           own.test_fraction, common.seed(), cutouts / category, halves.train.cutouts.emplace_back(),
           halves.test.cutouts.emplace_back());
  }
  divide(read_all(files_of(photographs, "mate-backgrounds", "data.photographs"),
                  [&](const fs::path& file) {
                    return reduced(read_image(file, 3, common.image_memory()), kPhotographSides * side, true);
                  }),
         own.test_fraction, common.seed(), photographs, halves.train.photographs, halves.test.photographs);
  return halves;
}

const Tensor& any_of(const std::vector<Tensor>& images, RandomStream& random) {
  return images[random.below(static_cast<std::uint32_t>(images.size()))];
}

// A square part of a photograph at random, mirrored or not.
void fill_background(const Tensor& photograph, RandomStream& random, const Tensor& scene) {
  thread_local std::vector<float> values;
  const Index side = scene.size(0), height = photograph.size(0), width = photograph.size(1);
  const Index shorter = std::min(height, width);
  const auto part = static_cast<Index>(static_cast<double>(shorter) *
                                       random.uniform(static_cast<float>(1.0 / kPhotographSides), 1.0F));
  const Index extent = std::clamp<Index>(part, 1, shorter);
  const Index top = random.below(static_cast<std::uint32_t>(height - extent + 1));
  const Index left = random.below(static_cast<std::uint32_t>(width - extent + 1));
  const bool mirrored = random.below(2) == 1;
  resize_part(photograph, {top, left, extent, extent}, side, side, values);
  std::uint8_t* to = scene.data<std::uint8_t>();
  for (Index y = 0; y < side; ++y) {
    for (Index x = 0; x < side; ++x) {
      const float* from = values.data() + (y * side + (mirrored ? side - 1 - x : x)) * 3;
      for (int c = 0; c < 3; ++c) *to++ = rounded(from[c]);
    }
  }
}

// Before what the scene shows, at a random size and place, mirrored or not.
void paste(const Tensor& cutout, std::uint8_t label, std::array<double, 2> scale, RandomStream& random,
           const Sample& scene) {
  thread_local std::vector<float> values;
  const Index side = scene.mask.size(0);
  const double longer =
      static_cast<double>(side) * random.uniform(static_cast<float>(scale[0]), static_cast<float>(scale[1]));
  const double factor = longer / static_cast<double>(std::max(cutout.size(0), cutout.size(1)));
  const auto extent = [&](Index pixels) {
    return std::clamp<Index>(std::lround(static_cast<double>(pixels) * factor), 1, side);
  };
  const Index height = extent(cutout.size(0)), width = extent(cutout.size(1));
  const Index top = random.below(static_cast<std::uint32_t>(side - height + 1));
  const Index left = random.below(static_cast<std::uint32_t>(side - width + 1));
  const bool mirrored = random.below(2) == 1;
  resize_part(cutout, {0, 0, cutout.size(0), cutout.size(1)}, height, width, values);
  for (Index y = 0; y < height; ++y) {
    for (Index x = 0; x < width; ++x) {
      const float* from = values.data() + (y * width + (mirrored ? width - 1 - x : x)) * 4;
      const Index at = (top + y) * side + left + x;
      std::uint8_t* pixel = scene.image.data<std::uint8_t>() + at * 3;
      for (int c = 0; c < 3; ++c)
        pixel[c] = rounded(from[c] + static_cast<float>(pixel[c]) * (1.0F - from[3] / 255.0F));
      if (from[3] > 127.5F) scene.mask.data<std::uint8_t>()[at] = label;
    }
  }
}

}  // namespace

CutoutScenes::CutoutScenes(CutoutMaterial material, const CutoutOptions& options, Index count,
                           std::uint64_t seed, std::uint32_t split)
    : material_(std::move(material)), options_(options), count_(count), seed_(seed), split_(split) {
  require(count > 0 && count <= kMaxSamples, "cutouts", "{} scenes", count);
  info_.name = "cutouts";
  info_.sample_shape = {options.image_size, options.image_size, 3};
  info_.class_names = {"background"};
  info_.class_names.insert(info_.class_names.end(), options.categories.begin(), options.categories.end());
  info_.classes = static_cast<Index>(info_.class_names.size());
  info_.masks = true;
}

Sample CutoutScenes::get(Index index) const {
  ensure(index >= 0 && index < count_, "cutouts", "scene {} of {}", index, count_);
  const Index side = options_.image_size;
  const Sample scene{.image = Tensor::empty({side, side, 3}, kBytes),
                     .label = 0,
                     .mask = Tensor::zeros({side, side}, kBytes)};
  RandomStream random({.seed = seed_,
                       .purpose = RandomPurpose::synthetic_data,
                       .call = static_cast<std::uint32_t>(index),
                       .step = split_,
                       .micro_batch = kCutoutStream});
  fill_background(any_of(material_.photographs, random), random, scene.image);
  const auto shown = random.below(static_cast<std::uint32_t>(options_.most) + 1);
  for (std::uint32_t i = 0; i < shown; ++i) {
    const auto category = random.below(static_cast<std::uint32_t>(material_.cutouts.size()));
    paste(any_of(material_.cutouts[category], random), static_cast<std::uint8_t>(category + 1),
          options_.scale, random, scene);
  }
  return scene;
}

namespace {

Splits open_cutouts(const CutoutOptions& own, const SetOptions& common, const SampleReport&) {
  Halves halves = read_material(own, common);
  const Index training = common.train_size > 0 ? common.train_size : kTrainingCutouts;
  const Index testing = common.test_size > 0 ? common.test_size : kTestCutouts;
  const auto train = std::make_shared<CutoutScenes>(std::move(halves.train), own,
                                                    training + common.validation_size, common.seed(), 0);
  train->set_statistics(statistics_of(*train, kMeasuredCutouts));
  const auto test = std::make_shared<CutoutScenes>(std::move(halves.test), own, testing, common.seed(), 1);
  test->set_statistics(train->info().statistics);
  return {.train = train, .test = test, .validation = {}};
}

}  // namespace

LabelledFamily::Entry cutouts_entry() {
  return LabelledFamily::entry<CutoutOptions>(
      "cutouts", "colour cut-outs with transparency on photographs, composed as they are asked for",
      options::Describe<CutoutOptions>()
          .key("photographs", &CutoutOptions::photographs,
               "folder of JPEG and PNG files to put behind them; null: where Debian's mate-backgrounds has "
               "its own")
          .key("categories", &CutoutOptions::categories,
               "folders of PNG files below data.path (by default Debian's tuxpaint-stamps-default), which "
               "are the classes")
          .key("image_size", &CutoutOptions::image_size, "side of a scene in pixels", {.min = 8, .max = 4096})
          .key("most", &CutoutOptions::most, "cut-outs in a scene, at most", {.min = 1, .max = 1000})
          .key("scale", &CutoutOptions::scale, "range of a cut-out's longer side, as a share of the scene's",
               {.min = 0.0, .max = 1.0, .open_min = true})
          .key("test_fraction", &CutoutOptions::test_fraction,
               "share of the photographs, and of the cut-outs of every category, that only test scenes show",
               {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true})
          .rule("scale", "must be a range [low, high]",
                [](const CutoutOptions& o) { return o.scale[0] <= o.scale[1]; })
          .rule("categories", "must name 1 to 253 folders",
                [](const CutoutOptions& o) { return !o.categories.empty() && o.categories.size() <= 253; }),
      open_cutouts);
}

}  // namespace tandem::datasets
