// Reading of files. All files are opened here. Only regular files are accepted, and only the bytes that they
// had when they were opened are read. A FIFO, a device or a kernel file is therefore an immediate error, and
// no path can block or be read endlessly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::files {

// Kind of a path's target; symbolic links are followed.
enum class Kind : std::uint8_t {
  absent,  // also a broken symbolic link
  file,
  folder,
  special,  // FIFO, socket, device
};

// Throws UserError with the path and the reason if the system reports an error: a loop of symbolic links, a
// folder without permission.
Kind kind_of(const std::filesystem::path& path);
// Why a path is not a folder: "there is no such folder", "is a file, not a folder".
std::string no_folder(const std::filesystem::path& path);

// A regular file, open for reading.
class InputFile {
 public:
  // Throws UserError with the path and its kind if it is not a regular file, or cannot be opened.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // in bytes, at opening
  // Reads exactly `bytes` bytes from `offset` on. Throws UserError if the file ends earlier, VendorError on a
  // system error.
  void read(std::uint64_t offset, void* to, std::uint64_t bytes) const;
  // File descriptor for libraries. This object closes it, unless `release` hands it over.
  int descriptor() const { return descriptor_; }
  int release();

 private:
  std::string path_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

inline constexpr std::uint64_t kMaxTextBytes = std::uint64_t{8} << 30;

// The whole file. Throws UserError, also if it has more than `limit` bytes.
std::string read_text(const std::filesystem::path& path, std::uint64_t limit = kMaxTextBytes);
// The same; absent if there is no such file.
std::optional<std::string> read_text_if_there(const std::filesystem::path& path,
                                              std::uint64_t limit = kMaxTextBytes);

// Entries of a folder, sorted by name. Throws UserError with the path if it is not a folder or cannot be
// listed.
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& folder);

// Calls `use(line, ended)` for each line, without its line break, which the last one may lack.
template <class Use>
void each_line(std::string_view text, Use&& use) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const bool ended = end != std::string_view::npos;
    use(text.substr(0, end), ended);
    text.remove_prefix(ended ? end + 1 : text.size());
  }
}

}  // namespace tandem::files
