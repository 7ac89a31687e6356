// Files of weights that other programs wrote under names of their own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "files/safetensors.h"

namespace tandem::models {

// Where a tensor of such a file belongs.
struct ForeignTensor {
  std::string name;           // the module's name of it
  std::vector<Index> rows{};  // row i here is row rows[i] there; empty: in the same order
};

// Of a tensor of the file. Nothing: it belongs nowhere.
using ForeignNames = std::function<std::optional<ForeignTensor>(const safetensors::Entry&)>;

// A base of modules beside Module.
class ReadsForeignFiles {
 public:
  virtual ~ReadsForeignFiles() = default;
  // How to read `file`; empty: its names are the module's own.
  virtual ForeignNames foreign_names(const safetensors::File& file) const = 0;
};

// Where a name begins with the first of a pair, the second takes its place; other tensors belong nowhere.
//   under({{"features.", "backbone.features."}})
ForeignNames under(std::vector<std::pair<std::string, std::string>> prefixes);

}  // namespace tandem::models
