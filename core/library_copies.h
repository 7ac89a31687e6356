// Detection of several copies of Tandem in one process. The layers above core are static libraries: a program
// and a plugin that both link them have a copy each, unless the plugin's symbols are bound to the program's.
// Scopes of one copy (NoGrad, Autocast) have no effect in the other.
#pragma once

#include <atomic>

namespace tandem {

namespace detail {
extern std::atomic<int> library_copies;
}

// A static object in the file that holds the state.
class LibraryCopy {
 public:
  // `state`: address of the state that this copy's code uses; equal addresses mean one copy.
  explicit LibraryCopy(const void* state);
  ~LibraryCopy();
  LibraryCopy(const LibraryCopy&) = delete;
  LibraryCopy& operator=(const LibraryCopy&) = delete;

  // Throws UserError naming the files if there are several copies.
  static void require_one() {
    if (detail::library_copies.load(std::memory_order_relaxed) > 1) [[unlikely]]
      refuse();
  }

 private:
  [[noreturn]] static void refuse();

  const void* state_;
};

}  // namespace tandem
