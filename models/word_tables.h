// Parameters whose rows correspond to words, so that weights can be transferred by word to another
// vocabulary.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/shape.h"

namespace tandem::models {

// Row i of the parameter belongs to word i of a vocabulary.
struct WordTable {
  std::string parameter;       // path, as in a weights file; a shared table has one for each of its paths
  std::size_t vocabulary = 0;  // index among those of the data (tasks/task.h)
  bool by_frequency = false;   // rows are sorted by word frequency and cannot move
};

// Base class beside Module.
class HasWordTables {
 public:
  virtual ~HasWordTables() = default;
  virtual std::vector<WordTable> word_tables() const = 0;
};

// Rows of a table in a file that a parameter takes.
struct RowMap {
  static constexpr Index kNew = -1;

  std::vector<Index> rows;  // row i is row rows[i] of the file; kNew: unchanged
  Index in_file = 0;        // rows of the file's table
};
using RowMaps = std::map<std::string, RowMap>;  // by the parameter's path

}  // namespace tandem::models
