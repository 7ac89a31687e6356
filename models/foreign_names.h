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
  std::string name;           // name in the module; empty: a buffer that no module needs
  std::vector<Index> rows{};  // row i here is row rows[i] in the file; empty: same order
  bool transposed = false;    // the file has the matrix [in,out] for [out,in] here
  // First row of the tensor's part of the parameter, e.g. of keys in a joined projection of queries, keys and
  // values; empty: the tensor is the whole parameter. Parts must cover every row once.
  std::optional<Index> first_row{};
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
