// The text of a file, without a copy where it is long.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tandem::files {

// A file of at least kMapped bytes is mapped: the system reads what is looked at, and drops it where memory
// is short. Nobody may cut it meanwhile. Others are read.
class TextView {
 public:
  static constexpr std::uint64_t kMapped = std::uint64_t{4} << 20;

  // Throws UserError as read_text does.
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
