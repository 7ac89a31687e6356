// Reading files. Whatever is read is opened here: only regular files are, and of one no more is read than it
// held when it was opened. So a FIFO, a device or a file of the kernel's is an error at once, and nothing
// that a path may name is waited for or read without end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::files {

// What a path leads to, symbolic links followed.
enum class Kind : std::uint8_t {
  absent,  // also a symbolic link to nothing
  file,
  folder,
  special,  // FIFO, socket, device
};

// Throws UserError naming the path and the reason where the system does not tell: a loop of symbolic links, a
// folder that may not be searched.
Kind kind_of(const std::filesystem::path& path);
// Of a path that leads to no folder, why: "there is no such folder", "is a file, not a folder".
std::string no_folder(const std::filesystem::path& path);

// A regular file, open for reading.
class InputFile {
 public:
  // Throws UserError naming the path and what it is when it is anything else, or cannot be opened.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // in bytes, when it was opened
  // Exactly `bytes` bytes from `offset` on. Throws UserError when the file ends before, VendorError when the
  // system does not read it.
  void read(std::uint64_t offset, void* to, std::uint64_t bytes) const;
  // For a library that reads for itself. It stays open as long as this object; `release` hands it over.
  int descriptor() const { return descriptor_; }
  int release();

 private:
  std::string path_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

inline constexpr std::uint64_t kMaxTextBytes = std::uint64_t{8} << 30;

// The whole file. Throws UserError, also when it has more than `limit` bytes.
std::string read_text(const std::filesystem::path& path, std::uint64_t limit = kMaxTextBytes);
// The same; nothing where there is no such file.
std::optional<std::string> read_text_if_there(const std::filesystem::path& path,
                                              std::uint64_t limit = kMaxTextBytes);

// What a folder holds, sorted by name. Throws UserError naming the path when it is no folder, or the system
// does not list it.
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& folder);

// Calls `use(line, ended)` for each line, without its line break; the last one may have none.
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
