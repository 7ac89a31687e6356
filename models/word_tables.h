// Parameters whose rows stand for words, so that weights can be taken over by word where a vocabulary has
// changed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/shape.h"

namespace tandem::models {

// Row i of the parameter is of word i of a vocabulary.
struct WordTable {
  std::string parameter;  // a path, as in a file of weights; a shared table has one for each of its paths
  std::size_t vocabulary = 0;  // its place among those of the data (tasks/vocabularies.h)
  bool by_frequency = false;   // rows cannot move: where a word stands is how frequent it is
};

// A base of modules beside Module.
class HasWordTables {
 public:
  virtual ~HasWordTables() = default;
  virtual std::vector<WordTable> word_tables() const = 0;
};

// Which rows of a table in a file a parameter takes.
struct RowMap {
  static constexpr Index kNew = -1;

  std::vector<Index> rows;  // row i is row rows[i] of the file; kNew: stays as it is
  Index in_file = 0;        // rows of the file's table
};
using RowMaps = std::map<std::string, RowMap>;  // by the parameter's path

}  // namespace tandem::models
