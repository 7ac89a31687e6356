#include "core/library_copies.h"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.h"

namespace tandem {

namespace detail {
std::atomic<int> library_copies = 0;
}

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<const void*> states;  // one per object, possibly repeated
};

// Outlives the static objects of every library.
Registry& registry() {
  static auto* const only = new Registry;
  return *only;
}

// The distinct states in order of registration.
std::vector<const void*> distinct(const std::vector<const void*>& states) {
  std::vector<const void*> found;
  for (const void* state : states)
    if (std::ranges::find(found, state) == found.end()) found.push_back(state);
  return found;
}

std::string file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname ? info.dli_fname : "an unknown file";
}

}  // namespace

LibraryCopy::LibraryCopy(const void* state) : state_(state) {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  all.states.push_back(state_);
  detail::library_copies = static_cast<int>(distinct(all.states).size());
}

LibraryCopy::~LibraryCopy() {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  if (const auto own = std::ranges::find(all.states, state_); own != all.states.end()) all.states.erase(own);
  detail::library_copies = static_cast<int>(distinct(all.states).size());
}

void LibraryCopy::refuse() {
  Registry& all = registry();
  std::string files;
  {
    const std::scoped_lock lock(all.mutex);
    for (const void* state : distinct(all.states)) files += (files.empty() ? "" : " and ") + file_of(state);
  }
  throw UserError(
      "library",
      "this process has copies of Tandem in " + files +
          ": scopes such as NoGrad and Autocast of one have no effect in the other; link the program "
          "with -rdynamic and the plugin without Tandem's static libraries");
}

}  // namespace tandem
