#include "data/image_grid.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"

namespace tandem::datasets {

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
