#include "core/cpu/openmp.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "core/printable.h"

namespace tandem::cpu {

int thread_limit() { return omp_get_thread_limit(); }

std::vector<std::pair<std::string, std::string>> openmp_variables() {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** at = environ; at && *at; ++at) {
    const std::string_view entry = *at;
    const std::size_t end = entry.find('=');
    if (end == std::string_view::npos || (!entry.starts_with("OMP_") && !entry.starts_with("GOMP_")))
      continue;
    found.emplace_back(printable(std::string(entry.substr(0, end))),
                       printable(std::string(entry.substr(end + 1))));
  }
  std::sort(found.begin(), found.end());
  return found;
}

SingleThreaded::SingleThreaded() : outer_(omp_get_max_threads()) {
  if (outer_ != 1) omp_set_num_threads(1);
}

SingleThreaded::~SingleThreaded() {
  if (outer_ != 1) omp_set_num_threads(outer_);
}

}  // namespace tandem::cpu
