// The three kinds of error. Every message has the place, the rule, the actual values and, if one exists, the
// way out: "[conv2d] filter [64,3,3,16] expects 16 input channels, input is [8,28,28,32]".
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

// Exported, so that exceptions can be caught across shared libraries.
class [[gnu::visibility("default")]] Error : public std::runtime_error {
 public:
  // `where` is an op, a file or a JSON path; it is printed in brackets unless it is empty.
  Error(std::string_view where, const std::string& message)
      : std::runtime_error(where.empty() ? message : fmt::format("[{}] {}", where, message)),
        where_(where.size()) {}

  // The two parts of what().
  std::string_view where() const {
    return where_ == 0 ? std::string_view() : std::string_view(what() + 1, where_);
  }
  std::string_view message() const { return what() + (where_ == 0 ? 0 : where_ + kBrackets); }

 private:
  static constexpr std::size_t kBrackets = 3;  // "[", "] "
  std::size_t where_;                          // length of `where`: copying an error must not throw
};

// Mistake of the caller: shapes, dtypes, keys, files.
class [[gnu::visibility("default")]] UserError : public Error {
 public:
  using Error::Error;
};

// Broken invariant of Tandem; a bug.
class [[gnu::visibility("default")]] InternalError : public Error {
 public:
  using Error::Error;
};

// A library (oneDNN, cuDNN, MPI, the system allocator…) reported a failure.
class [[gnu::visibility("default")]] VendorError : public Error {
 public:
  using Error::Error;
};

// Throws UserError with a formatted message unless `condition` holds. The arguments are always evaluated, so
// they must be cheap.
template <class... Args>
void require(bool condition, std::string_view where, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    throw UserError(where, fmt::format(format, std::forward<Args>(args)...));
}

// The same for an invariant of Tandem.
template <class... Args>
void ensure(bool condition, std::string_view where, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    throw InternalError(where, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tandem
