// Copies of a library with state in one process. The layers above core are static libraries: a program and a
// plugin that both link them have a copy each, unless the plugin's symbols are bound to the program's. Scopes
// of one copy (NoGrad, Autocast) are then unknown to the other, and its ops would run as if there were none.
#pragma once

#include <atomic>

namespace tandem {

namespace detail {
extern std::atomic<int> library_copies;
}

// A static object of the file that holds the state.
class LibraryCopy {
 public:
  // `state`: where the state is that the code of this copy reaches; copies with the same one are one.
  explicit LibraryCopy(const void* state);
  ~LibraryCopy();
  LibraryCopy(const LibraryCopy&) = delete;
  LibraryCopy& operator=(const LibraryCopy&) = delete;

  // Throws UserError that names the files of the copies when there are several.
  static void require_one() {
    if (detail::library_copies.load(std::memory_order_relaxed) > 1) [[unlikely]]
      refuse();
  }

 private:
  [[noreturn]] static void refuse();

  const void* state_;
};

}  // namespace tandem
