// Tables of words that start from weights of another vocabulary: which row goes where.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "files/safetensors.h"
#include "models/word_tables.h"
#include "tasks/task.h"

namespace tandem::train {

struct WordRows {
  models::RowMaps rows;            // of the tables whose words are not the same, in the same order
  std::vector<std::string> notes;  // what to tell the user, one fact a line
};

// Words that both have keep their rows, new ones stay as they were drawn, and the others are dropped. Empty
// of a task without words. Throws UserError where words are told apart in another way (another tokenizer or
// codec), and where a table cannot be taken by word.
WordRows rows_by_word(const config::Config& config, tasks::Task& task, const safetensors::File& weights);

}  // namespace tandem::train
