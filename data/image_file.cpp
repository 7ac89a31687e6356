#include "data/image_file.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "data/io/byte_reader.h"
#include "data/limits.h"

namespace tandem::datasets {

Tensor make_image(std::int64_t height, std::int64_t width, int channels, std::size_t file_bytes,
                  const std::string& name) {
  require(height > 0 && width > 0, name, "has {}x{} pixels", height, width);
  require(height <= kMaxPixels / width, name, "has {}x{} pixels, the limit is {} in all", height, width,
          kMaxPixels);
  require(height * width / kMaxPixelsPerByte <= static_cast<std::int64_t>(file_bytes), name,
          "claims {}x{} pixels in {} bytes, which is not plausible", height, width, file_bytes);
  return Tensor::empty({height, width, channels}, {.dtype = DType::u8, .kind = MemoryKind::data});
}

Tensor decode_image(std::span<const std::byte> bytes, const std::string& name, int channels) {
  ensure(channels == 1 || channels == 3, name, "images of {} channels", channels);
  const auto starts_with = [&](std::string_view signature) {
    return bytes.size() >= signature.size() &&
           std::memcmp(bytes.data(), signature.data(), signature.size()) == 0;
  };
  if (starts_with("\xff\xd8\xff")) return decode_jpeg(bytes, name, channels);
  if (starts_with("\x89PNG\r\n\x1a\n")) return decode_png(bytes, name, channels);
  throw UserError(name, "is neither a JPEG nor a PNG file");
}

Tensor read_image(const std::filesystem::path& path, int channels) {
  return decode_image(read_file(path, kMaxImageFileBytes), path.string(), channels);
}

bool is_image_file(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  for (char& letter : extension) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

std::vector<std::filesystem::path> image_files_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && is_image_file(entry.path())) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace tandem::datasets
