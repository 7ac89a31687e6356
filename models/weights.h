// The weights of a module in a safetensors file, with PyTorch's names and layouts: filters OIHW, batch-norm
// statistics, num_batches_tracked as an I64 scalar.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "files/safetensors.h"
#include "models/word_tables.h"
#include "nn/module.h"

namespace tandem::models {

// Parameters (shared ones once), live statistics and counters, in the layout of the file. Tensors whose
// layout is the same here share the module's memory.
std::vector<safetensors::NamedTensor> weights_of(nn::Module& module);

void save_weights(nn::Module& module, const std::string& path, const safetensors::Metadata& metadata = {});

struct LoadOptions {
  bool strict = true;            // missing and unexpected names are errors
  bool skip_mismatched = false;  // tensors of another shape stay as they are instead of being errors
  RowMaps rows{};                // of tables that are taken by word; others are taken whole
};

struct Mismatch {
  std::string name;
  std::string expected, found;  // shapes in the layout of the file: "[10,512]"
};

struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;     // of the module, not in the file
  std::vector<std::string> unexpected;  // in the file, not of the module
  std::vector<Mismatch> mismatched;     // in both, with other shapes; not loaded
  // What stands before every name of the file, or of the module, and not of the other: "module.".
  std::string file_prefix, module_prefix;
  // "62 tensors loaded; missing: fc.weight, fc.bias; …", one line
  std::string text() const;
  // The part of it behind the count; "" when the file holds exactly the module's weights.
  std::string differences() const;
};

// Loads by name; a module that reads files of other programs (models/foreign_names.h) says what its tensors
// are called there. Where no name fits, one prefix is taken off the names of the file, or put before them, if
// tensors fit then ("module." of DataParallel, "_orig_mod."). Any floating dtype is converted to the
// parameter's; num_batches_tracked may be absent (old files) and a shared parameter may stand in the file
// under any or all of its names, the first in the module's order counts. Statistics become live and next
// alike. Throws UserError, with nothing changed, for what the options do not allow, and for a file that is
// not well-formed.
LoadReport load_weights(nn::Module& module, const std::string& path, const LoadOptions& options = {});
LoadReport load_weights(nn::Module& module, const safetensors::File& file, const LoadOptions& options = {});

// What load_weights would report, with nothing changed: for messages in the words of the caller's users.
LoadReport compare_weights(nn::Module& module, const safetensors::File& file, const RowMaps& rows = {});

// "fc.weight holds nan at element 7", of the first parameter or live statistic with a value that is not
// finite; nothing where all are finite. Waits for the device.
std::optional<std::string> non_finite_weights(nn::Module& module);

// Between the layouts here and in files.
Shape file_shape(const Shape& shape, ParameterLayout layout);
Tensor to_file_layout(const Tensor& value, ParameterLayout layout);
Tensor from_file_layout(const Tensor& value, ParameterLayout layout);

}  // namespace tandem::models
