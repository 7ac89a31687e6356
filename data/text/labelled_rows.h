// Texts with a label each, as files and folders of one's own have them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

struct LabelledRow {
  std::string label, text;
  std::string place;  // of messages: "train.tsv:3", "reviews/good/1.txt"
};

struct LabelledRows {
  std::vector<LabelledRow> rows;
  std::vector<std::string> notes;  // what a user should be told
};

struct LabelledColumns {
  std::optional<std::string> label{},
      text{};                       // by their names; absent: what labels and texts are usually called
  Index max_line = Index{1} << 20;  // bytes of a line
};

// Of a folder, each subfolder is a class and every .txt file in it, hidden ones left out, a text; of a file
// whose name ends in .jsonl or .ndjson, each line is an object; in .csv, each row has its fields between
// commas; of any other one each line is a label, a tab, and a text. A first row that names a column of labels
// and one of texts is a header, by which columns are found; without one there are two columns, the label
// first. Throws UserError naming file and line for what is missing, empty, too long, no UTF-8, or not of this
// form.
LabelledRows read_labelled_rows(const std::string& path, const LabelledColumns& columns);

}  // namespace tandem::datasets
