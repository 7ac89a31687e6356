#include "data/orientation.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tandem::datasets {

namespace {

constexpr unsigned kTag = 0x0112;
constexpr unsigned kShort = 3, kLong = 4;  // types of values
constexpr std::size_t kEntryBytes = 12;

// Numbers of a TIFF block in its byte order.
class TiffNumbers {
 public:
  explicit TiffNumbers(std::span<const std::byte> block)
      : block_(block), little_(block.size() > 1 && block[0] == std::byte{'I'}) {}

  // Returns 0 beyond the end.
  std::uint32_t at(std::size_t place, std::size_t bytes) const {
    if (place > block_.size() || bytes > block_.size() - place) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value = value << 8 | std::to_integer<std::uint32_t>(block_[place + (little_ ? bytes - 1 - i : i)]);
    return value;
  }

 private:
  std::span<const std::byte> block_;
  bool little_;
};

bool is_tiff(std::span<const std::byte> block) {
  return block.size() >= 8 &&
         (std::memcmp(block.data(), "II*\0", 4) == 0 || std::memcmp(block.data(), "MM\0*", 4) == 0);
}

// Gathers pixels of `C` bytes: pixel (y, x) comes from `first` + y·`down` + x·`right`, in pixels.
template <int C>
void gather(const std::uint8_t* first, std::int64_t down, std::int64_t right, std::int64_t height,
            std::int64_t width, std::uint8_t* to) {
  constexpr std::int64_t kStrip = 32;  // columns whose source lines stay in the cache
  for (std::int64_t begin = 0; begin < width; begin += kStrip) {
    const std::int64_t end = std::min(begin + kStrip, width);
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = begin; x < end; ++x)
        std::memcpy(to + (y * width + x) * C, first + (y * down + x * right) * C, C);
  }
}

}  // namespace

int exif_orientation(std::span<const std::byte> block) {
  if (!is_tiff(block)) return 1;
  const TiffNumbers number(block);
  const std::size_t directory = number.at(4, 4);
  const std::size_t entries = number.at(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntryBytes;
    if (entry + kEntryBytes > block.size()) break;
    if (number.at(entry, 2) != kTag) continue;
    const std::uint32_t type = number.at(entry + 2, 2);
    const std::uint32_t value = type == kShort  ? number.at(entry + 8, 2)
                                : type == kLong ? number.at(entry + 8, 4)
                                                : 1;
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Tensor seen(const ImageSource& source, const Tensor& stored, int orientation) {
  if (orientation == 1 || !source.upright) return stored;
  const Index height = stored.size(0), width = stored.size(1), channels = stored.size(2);
  const bool transposed = orientation >= 5;
  const bool x_from_end = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool y_from_end = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  const Index columns = transposed ? height : width, rows = transposed ? width : height;
  const Index right = transposed ? width : 1, down = transposed ? 1 : width;  // along the stored pixels
  const Tensor image =
      make_image(source, {rows, columns, channels}, static_cast<std::size_t>(stored.numel()));
  const Index first = (x_from_end ? (columns - 1) * right : 0) + (y_from_end ? (rows - 1) * down : 0);
  const auto copy = channels == 1 ? gather<1> : channels == 3 ? gather<3> : gather<4>;
  copy(stored.data<std::uint8_t>() + first * channels, y_from_end ? -down : down, x_from_end ? -right : right,
       rows, columns, image.data<std::uint8_t>());
  return image;
}

}  // namespace tandem::datasets
