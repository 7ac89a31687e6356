// Word tables that start from weights with another vocabulary: the map of rows.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "files/safetensors.h"
#include "models/word_tables.h"
#include "tasks/task.h"

namespace tandem::train {

struct WordRows {
  models::RowMaps rows;            // of the tables whose vocabularies differ
  std::vector<std::string> notes;  // what to tell the user, one fact a line
};

// Words in both vocabularies keep their rows, new words keep their initial rows, other rows are dropped.
// Empty for tasks without words. Throws UserError if the tokenizer or codec differs, or a table cannot be
// mapped by word.
WordRows rows_by_word(const config::Config& config, tasks::Task& task, const safetensors::File& weights);

}  // namespace tandem::train
