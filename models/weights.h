// Weights of a module in a safetensors file, with PyTorch's names and layouts: filters OIHW, batch-norm
// statistics, num_batches_tracked as an I64 scalar.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "files/safetensors.h"
#include "models/word_tables.h"
#include "nn/module.h"

namespace tandem::models {

// Parameters (shared ones once), live statistics and counters, in the layout of the file. Tensors with the
// same layout here share the module's memory.
std::vector<safetensors::NamedTensor> weights_of(nn::Module& module);

void save_weights(nn::Module& module, const std::string& path, const safetensors::Metadata& metadata = {});

struct LoadOptions {
  bool strict = true;            // missing and unexpected names are errors
  bool skip_mismatched = false;  // keep tensors whose shape differs, instead of an error
  RowMaps rows{};                // of tables loaded by word; others are loaded whole
};

struct Mismatch {
  std::string name;
  std::string expected, found;  // shapes in the layout of the file: "[10,512]"
};

struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;     // in the module, not in the file
  std::vector<std::string> unexpected;  // in the file, not in the module
  std::vector<Mismatch> mismatched;     // in both, with different shapes; not loaded
  // Prefix of every name in only one of the file and the module, e.g. "module.".
  std::string file_prefix, module_prefix;
  // "62 tensors loaded; missing: fc.weight, fc.bias; …", one line
  std::string text() const;
  // Its part after the count; "" if the file holds exactly the module's weights.
  std::string differences() const;
};

// Loads by name; a module that reads files of other programs (models/foreign_names.h) maps their names. If no
// name matches, one prefix is removed from, or added to, the names of the file ("module." of DataParallel,
// "_orig_mod."). Any floating dtype is converted to the parameter's. num_batches_tracked may be absent (old
// files). A shared parameter may occur under any or all of its names; the first in the module's order counts.
// Statistics become live and next. Throws UserError, with nothing changed, for differences that the options
// do not allow, and for a malformed file.
LoadReport load_weights(nn::Module& module, const std::string& path, const LoadOptions& options = {});
LoadReport load_weights(nn::Module& module, const safetensors::File& file, const LoadOptions& options = {});

// The report of load_weights without changing anything, for custom messages.
LoadReport compare_weights(nn::Module& module, const safetensors::File& file, const RowMaps& rows = {});

// "fc.weight holds nan at element 7": the first parameter or live statistic with a non-finite value; empty if
// there is none. Synchronises.
std::optional<std::string> non_finite_weights(nn::Module& module);

// Converts between the module's and the file's layout.
Shape file_shape(const Shape& shape, ParameterLayout layout);
Tensor to_file_layout(const Tensor& value, ParameterLayout layout);
Tensor from_file_layout(const Tensor& value, ParameterLayout layout);

}  // namespace tandem::models
