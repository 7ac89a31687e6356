// The text of a file; a large file is mapped instead of copied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tandem::files {

// A file of at least kMapped bytes is mapped: the system reads accessed pages, and drops them when memory is
// short. The file must not be truncated meanwhile. Smaller files are read.
class TextView {
 public:
  static constexpr std::uint64_t kMapped = std::uint64_t{4} << 20;

  // Throws UserError as read_text.
  TextView(const std::filesystem::path& path, std::uint64_t limit);
  ~TextView();
  TextView(const TextView&) = delete;
  TextView& operator=(const TextView&) = delete;

  std::string_view text() const { return text_; }
  bool mapped() const { return mapping_ != nullptr; }

 private:
  std::string read_;
  std::string_view text_;
  void* mapping_ = nullptr;
};

}  // namespace tandem::files
