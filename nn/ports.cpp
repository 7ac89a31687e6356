#include "nn/ports.h"

#include <fmt/core.h>

namespace tandem::nn {

std::vector<std::string> key_value_names(const std::string& prefix, Index layers) {
  std::vector<std::string> names;
  for (Index i = 0; i < layers; ++i)
    for (const char* const part : {"key", "value"}) names.push_back(fmt::format("{}.{}.{}", prefix, i, part));
  return names;
}

}  // namespace tandem::nn
