#include "samples/cutout_material.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>

#include "core/cpu/parallel.h"
#include "core/error.h"
#include "data/decorators.h"
#include "data/image_file.h"
#include "data/transforms/render.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

// Limit on a stored photograph's shorter side, in scene sides. Scenes show crops of at least one scene side.
constexpr double kPhotographSides = 2.5;
constexpr double kLeastShare = 0.2;  // least share of transparent pixels in a cut-out

const TensorOptions kBytes{.dtype = DType::u8, .kind = MemoryKind::data};

std::uint8_t rounded(float value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
}

// The image, reduced until its shorter or longer side is at most `most`.
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

// Premultiplies colours by alpha in place, so that resampling spreads no colour of transparent pixels.
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

// The images that `read` gives for the files, in parallel. Undefined images are dropped.
template <class Read>
std::vector<Tensor> read_all(const std::vector<fs::path>& files, const Read& read) {
  std::vector<Tensor> images(files.size());
  std::vector<std::exception_ptr> errors(files.size());
  cpu::parallel_for(true, files.size(), [&](std::size_t i) {
    try {
      images[i] = read(files[i]);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  std::erase_if(images, [](const Tensor& image) { return !image.defined(); });
  return images;
}

std::vector<fs::path> files_of(const fs::path& folder, const char* package, const char* key) {
  files::require_there(files::kind_of(folder) == files::Kind::folder, folder.string(),
                       "{}; install Debian's package {} (`apt install {}`), or set {} to another folder",
                       files::no_folder(folder), package, package, key);
  return image_files_below(folder);
}

// Moves a random share of the images, at least one and not all, to the test half.
void divide(std::vector<Tensor> images, double fraction, std::uint64_t seed, const fs::path& folder,
            std::vector<Tensor>& train, std::vector<Tensor>& test) {
  const auto count = static_cast<Index>(images.size());
  require(count >= 2, folder.string(),
          "has {} usable images; at least two are needed, one of them for the test split", count);
  const auto kept = std::clamp<Index>(std::llround(fraction * static_cast<double>(count)), 1, count - 1);
  const std::vector<std::uint32_t> order = permutation(count, seed, 3);
  for (Index i = 0; i < count; ++i)
    (i < kept ? test : train).push_back(std::move(images[order[static_cast<std::size_t>(i)]]));
}

// True for mirrored or flipped copies of another file.
bool is_variant(const fs::path& file) {
  const std::string stem = file.stem().string();
  return stem.ends_with("_mirror") || stem.ends_with("_flip") || stem.ends_with("_mirror_flip");
}

// Crops the image to the smallest rectangle with all pixels that are more than half opaque.
Tensor trimmed_to_solid(const Tensor& image) {
  const Index height = image.size(0), width = image.size(1);
  const std::uint8_t* const pixels = image.data<std::uint8_t>();
  Index top = height, bottom = 0, left = width, right = 0;
  for (Index y = 0; y < height; ++y) {
    for (Index x = 0; x < width; ++x) {
      if (pixels[(y * width + x) * 4 + 3] < 128) continue;
      top = std::min(top, y);
      bottom = std::max(bottom, y + 1);
      left = std::min(left, x);
      right = std::max(right, x + 1);
    }
  }
  const Tensor part = Tensor::empty({bottom - top, right - left, 4}, kBytes);
  for (Index y = top; y < bottom; ++y)
    std::copy_n(pixels + (y * width + left) * 4, (right - left) * 4,
                part.data<std::uint8_t>() + (y - top) * (right - left) * 4);
  return part;
}

}  // namespace

CutoutHalves read_cutouts(const CutoutSources& from, const SetOptions& common, Index side, bool trimmed) {
  const fs::path cutouts = common.path ? common.place() : fs::path(kCutoutFolder);
  const fs::path photographs = from.photographs.value_or(kPhotographFolder);
  CutoutHalves halves;
  const auto extent = static_cast<double>(side);
  for (const std::string& category : from.categories) {
    std::vector<fs::path> files = files_of(cutouts / category, "tuxpaint-stamps-default", "data.path");
    std::erase_if(files, [](const fs::path& file) { return file.extension() != ".png" || is_variant(file); });
    divide(read_all(files,
                    [&](const fs::path& file) {
                      const Tensor image = read_image(file, 4, common.image_reading());
                      if (!is_cut_out(image)) return Tensor();
                      premultiply(image);
                      return reduced(trimmed ? trimmed_to_solid(image) : image, extent, false);
                    }),
           from.test_fraction, common.seed(), cutouts / category, halves.train.cutouts.emplace_back(),
           halves.test.cutouts.emplace_back());
  }
  divide(read_all(files_of(photographs, "mate-backgrounds", "data.photographs"),
                  [&](const fs::path& file) {
                    return reduced(read_image(file, 3, common.image_reading()), kPhotographSides * extent,
                                   true);
                  }),
         from.test_fraction, common.seed(), photographs, halves.train.photographs, halves.test.photographs);
  return halves;
}

const Tensor& any_of(const std::vector<Tensor>& images, RandomStream& random) {
  return images[random.below(static_cast<std::uint32_t>(images.size()))];
}

void draw_background(const Tensor& photograph, RandomStream& random, const Tensor& scene) {
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

void draw_cutout(const Tensor& cutout, const Rect& to, bool mirrored, const Tensor& image,
                 const Tensor& solid, std::uint8_t label) {
  thread_local std::vector<float> values;
  resize_part(cutout, {0, 0, cutout.size(0), cutout.size(1)}, to.height, to.width, values);
  const Index side = image.size(1);
  for (Index y = 0; y < to.height; ++y) {
    for (Index x = 0; x < to.width; ++x) {
      const float* from = values.data() + (y * to.width + (mirrored ? to.width - 1 - x : x)) * 4;
      const Index at = (to.top + y) * side + to.left + x;
      std::uint8_t* pixel = image.data<std::uint8_t>() + at * 3;
      for (int c = 0; c < 3; ++c)
        pixel[c] = rounded(from[c] + static_cast<float>(pixel[c]) * (1.0F - from[3] / 255.0F));
      if (solid.defined() && from[3] > 127.5F) solid.data<std::uint8_t>()[at] = label;
    }
  }
}

const options::Schema& CutoutSources::schema() {
  static const options::Schema schema =
      options::Describe<CutoutSources>()
          .key("photographs", &CutoutSources::photographs,
               "folder of JPEG and PNG background photographs; null: the folder of Debian's mate-backgrounds")
          .key("categories", &CutoutSources::categories,
               "class names: folders of PNG cut-outs below data.path (default: Debian's "
               "tuxpaint-stamps-default)")
          .key("test_fraction", &CutoutSources::test_fraction,
               "share of the photographs, and of each category's cut-outs, reserved for test scenes",
               {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true})
          .rule("categories", "must name 1 to 253 folders",
                [](const CutoutSources& o) { return !o.categories.empty() && o.categories.size() <= 253; });
  return schema;
}

}  // namespace tandem::datasets
