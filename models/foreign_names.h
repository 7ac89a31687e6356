// Weight files of other programs with their own names.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "files/safetensors.h"

namespace tandem::models {

// Destination of a tensor in such a file.
struct ForeignTensor {
  std::string name;           // name in the module
  std::vector<Index> rows{};  // row i here is row rows[i] in the file; empty: same order
};

// Maps a tensor of the file; empty: no destination.
using ForeignNames = std::function<std::optional<ForeignTensor>(const safetensors::Entry&)>;

// Base class beside Module.
class ReadsForeignFiles {
 public:
  virtual ~ReadsForeignFiles() = default;
  // Mapping for `file`; empty: it has the module's own names.
  virtual ForeignNames foreign_names(const safetensors::File& file) const = 0;
};

// Replaces the first prefix of a pair by the second; other tensors have no destination.
//   under({{"features.", "backbone.features."}})
ForeignNames under(std::vector<std::pair<std::string, std::string>> prefixes);

}  // namespace tandem::models
