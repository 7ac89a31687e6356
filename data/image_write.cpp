#include "data/image_write.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/error.h"

namespace tandem::datasets {

namespace {

// By libpng's simplified interface, which returns its errors. `map`: the colours of indices, three bytes
// each, or nullptr.
std::string encode(const Tensor& image, png_uint_32 format, std::size_t colours, const void* map) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.size(1));
  header.height = static_cast<png_uint_32>(image.size(0));
  header.format = format;
  header.colormap_entries = static_cast<png_uint_32>(colours);
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(header), '\0');
  png_alloc_size_t size = bytes.size();
  if (!png_image_write_to_memory(&header, bytes.data(), &size, 0, image.raw(), 0, map))
    throw VendorError("libpng", fmt::format("cannot encode an image of {}: {}", to_string(image.shape()),
                                            static_cast<const char*>(header.message)));
  bytes.resize(size);
  return bytes;
}

void ensure_pixels(const Tensor& image, bool fits) {
  ensure(fits && image.dtype() == DType::u8 && image.device() == Device{} && image.numel() > 0, "png",
         "{} of {} is no image to write", to_string(image.shape()), name_of(image.dtype()));
}

}  // namespace

std::string encode_png(const Tensor& image) {
  const int rank = image.rank();
  const bool grey = rank == 2 || (rank == 3 && image.size(2) == 1);
  ensure_pixels(image, grey || (rank == 3 && image.size(2) == 3));
  return encode(image, grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB, 0, nullptr);
}

std::string encode_indexed_png(const Tensor& indices, std::span<const std::array<std::uint8_t, 3>> colours) {
  ensure_pixels(indices, indices.rank() == 2);
  ensure(!colours.empty() && colours.size() <= 256, "png", "{} colours, expected 1 to 256", colours.size());
  const std::span<const std::uint8_t> all(indices.data<std::uint8_t>(),
                                          static_cast<std::size_t>(indices.numel()));
  const std::uint8_t greatest = *std::ranges::max_element(all);
  ensure(greatest < colours.size(), "png", "index {} has no colour, there are {}", greatest, colours.size());
  return encode(indices, PNG_FORMAT_RGB_COLORMAP, colours.size(), colours.data());
}

Tensor pixels_of(const Tensor& images, float low, float high) {
  ensure(images.dtype() == DType::f32 && low < high, "pixels_of", "{} between {} and {}",
         name_of(images.dtype()), low, high);
  const Tensor pixels = Tensor::empty(images.shape(), {.dtype = DType::u8, .kind = MemoryKind::data});
  const float* const from = images.data<float>();
  std::uint8_t* const to = pixels.data<std::uint8_t>();
  const float scale = 255.0F / (high - low);
  for (Index i = 0; i < images.numel(); ++i) {
    const float value = (from[i] - low) * scale;
    to[i] = value > 0.0F ? static_cast<std::uint8_t>(std::min(value, 255.0F) + 0.5F) : std::uint8_t{0};
  }
  return pixels;
}

Tensor image_grid(const Tensor& images, const GridOptions& options) {
  ensure(images.rank() == 4 && images.dtype() == DType::u8 && images.numel() > 0 && options.gap >= 0,
         "image_grid", "{} of {}, expected u8 [N,H,W,C]", to_string(images.shape()), name_of(images.dtype()));
  const Index count = images.size(0), height = images.size(1), width = images.size(2),
              channels = images.size(3);
  Index columns = options.columns;
  if (columns <= 0) columns = static_cast<Index>(std::ceil(std::sqrt(static_cast<double>(count))));
  columns = std::min(columns, count);
  const Index rows = (count + columns - 1) / columns;
  const Index down = height + options.gap, across = width + options.gap;
  const Tensor grid = Tensor::empty({rows * down - options.gap, columns * across - options.gap, channels},
                                    {.dtype = DType::u8, .kind = MemoryKind::data});
  std::memset(grid.raw(), options.background, grid.bytes());
  const auto row_bytes = static_cast<std::size_t>(width * channels);
  const std::uint8_t* from = images.data<std::uint8_t>();
  for (Index i = 0; i < count; ++i) {
    for (Index y = 0; y < height; ++y, from += row_bytes) {
      const Index pixel = ((i / columns) * down + y) * grid.size(1) + (i % columns) * across;
      std::memcpy(grid.data<std::uint8_t>() + pixel * channels, from, row_bytes);
    }
  }
  return grid;
}

}  // namespace tandem::datasets
