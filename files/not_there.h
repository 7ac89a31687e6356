// Error for data that is missing on this machine: its folder, package or file. A configuration can be checked
// without it, unlike with invalid data.
#pragma once

#include <filesystem>

#include "core/error.h"
#include "files/input.h"

namespace tandem::files {

class [[gnu::visibility("default")]] NotThere : public UserError {
 public:
  using UserError::UserError;
};

// Throws NotThere with a formatted message unless `there`.
template <class... Args>
void require_there(bool there, std::string_view where, fmt::format_string<Args...> format, Args&&... args) {
  if (!there) throw NotThere(where, fmt::format(format, std::forward<Args>(args)...));
}

// As read_text; throws NotThere if there is no such file.
inline std::string read_text_of_data(const std::filesystem::path& path, std::uint64_t limit) {
  require_there(kind_of(path) != Kind::absent, path.string(), "there is no such file");
  return read_text(path, limit);
}

}  // namespace tandem::files
