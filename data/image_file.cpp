#include "data/image_file.h"

#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "core/error.h"
#include "data/io/byte_reader.h"
#include "data/limits.h"
#include "data/passed_over.h"
#include "files/input.h"

namespace tandem::datasets {

namespace {

void require_memory(const ImageSource& source, std::size_t bytes, const std::string& what) {
  constexpr double kMiB = 1 << 20;
  require(bytes <= source.memory, source.name,
          "has {}: decoding takes {:.0f} MiB, data.max_image_mib allows {:.0f} to each worker; scale the "
          "image down or raise the limit",
          what, std::ceil(static_cast<double>(bytes) / kMiB), static_cast<double>(source.memory) / kMiB);
}

bool starts_with(std::span<const std::byte> bytes, std::string_view signature) {
  return bytes.size() >= signature.size() &&
         std::memcmp(bytes.data(), signature.data(), signature.size()) == 0;
}
bool is_png(std::span<const std::byte> bytes) { return starts_with(bytes, "\x89PNG\r\n\x1a\n"); }

// The bytes of an image file. Checks the size before reading.
std::vector<std::byte> bytes_of(const std::filesystem::path& path, const std::string& name,
                                std::size_t memory) {
  std::error_code unreadable;  // the read reports it
  const std::uintmax_t size = std::filesystem::file_size(path, unreadable);
  if (!unreadable) require_memory({{}, name, memory}, size, fmt::format("{} bytes", size));
  return read_file(path, kMaxImageFileBytes);
}

// Recursive search of a folder for image files.
class ImageSearch {
 public:
  ImageSearch(bool check_files, PassedOver& passed_over)
      : check_files_(check_files), passed_over_(passed_over) {}

  void add(const std::filesystem::path& folder) {
    if (!is_new(folder)) return passed_over_.repeated.add(folder);
    std::error_code unknown;  // of a dangling link, which is neither
    for (const auto& entry : files::entries_of(folder)) {
      const std::filesystem::path& path = entry.path();
      if (is_foreign(path)) {
        passed_over_.foreign.add(path);
      } else if (entry.is_directory(unknown)) {
        add(path);
      } else if (!is_image_file(path)) {
        passed_over_.others.add(path);
      } else {
        if (check_files_ && !entry.is_regular_file(unknown))
          files::InputFile{path};  // reports the kind of file
        images_.push_back(path);
      }
    }
  }
  std::vector<std::filesystem::path> take() { return std::move(images_); }

 private:
  // Links may form cycles.
  bool is_new(const std::filesystem::path& folder) {
    struct stat found {};
    return ::stat(folder.c_str(), &found) != 0 || known_.emplace(found.st_dev, found.st_ino).second;
  }

  const bool check_files_;
  PassedOver& passed_over_;
  std::set<std::pair<dev_t, ino_t>> known_;
  std::vector<std::filesystem::path> images_;
};

}  // namespace

Tensor make_image(const ImageSource& source, const Shape& extents, std::size_t besides) {
  const Index height = extents[0], width = extents[1];
  const std::size_t file_bytes = source.bytes.size();
  require(height > 0 && width > 0, source.name, "has {}x{} pixels", height, width);
  require(height <= kMaxPixels / width, source.name, "has {}x{} pixels, the limit is {} in all", height,
          width, kMaxPixels);
  require(height * width / kMaxPixelsPerByte <= static_cast<std::int64_t>(file_bytes), source.name,
          "claims {}x{} pixels in {} bytes, which is not plausible", height, width, file_bytes);
  require_memory(source, file_bytes + besides + static_cast<std::size_t>(extents.numel()),
                 fmt::format("{}x{} pixels", height, width));
  return Tensor::empty(extents, {.dtype = DType::u8, .kind = MemoryKind::data});
}

Tensor decode_image(std::span<const std::byte> bytes, const std::string& name, int channels,
                    const ImageReading& reading) {
  ensure(channels == 1 || channels == 3 || channels == 4, name, "images of {} channels", channels);
  const ImageSource source{bytes, name, reading.memory, reading.upright};
  if (is_png(bytes)) return decode_png(source, channels);
  require(starts_with(bytes, "\xff\xd8\xff"), name, "is neither a JPEG nor a PNG file");
  require(channels != 4, name, "is a JPEG file without transparency, expected a PNG");
  return decode_jpeg(source, channels);
}

Tensor read_image(const std::filesystem::path& path, int channels, const ImageReading& reading) {
  const std::string name = path.string();
  return decode_image(bytes_of(path, name, reading.memory), name, channels, reading);
}

Tensor read_indices(const std::filesystem::path& path, const ImageReading& reading) {
  const std::string name = path.string();
  const std::vector<std::byte> bytes = bytes_of(path, name, reading.memory);
  require(is_png(bytes), name, "is no PNG file; masks are PNG files");
  return decode_png_indices({bytes, name, reading.memory, reading.upright});
}

bool is_image_file(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  for (char& letter : extension) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

std::filesystem::path first_folder(const std::filesystem::path& root,
                                   std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (files::kind_of(root / name) == files::Kind::folder) return root / name;
  }
  return {};
}

std::vector<std::filesystem::path> image_files_below(const std::filesystem::path& folder, bool check_files,
                                                     PassedOver* passed_over) {
  PassedOver untold;
  ImageSearch search(check_files, passed_over ? *passed_over : untold);
  search.add(folder);
  return search.take();
}

}  // namespace tandem::datasets
