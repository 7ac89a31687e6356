#include "models/foreign_names.h"

namespace tandem::models {

ForeignNames under(std::vector<std::pair<std::string, std::string>> prefixes) {
  return [prefixes = std::move(prefixes)](const safetensors::Entry& entry) -> std::optional<ForeignTensor> {
    for (const auto& [there, here] : prefixes) {
      if (entry.name.starts_with(there)) return ForeignTensor{here + entry.name.substr(there.size())};
    }
    return std::nullopt;
  };
}

}  // namespace tandem::models
