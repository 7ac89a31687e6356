// Reader of labelled texts from the user's files and folders.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

struct LabelledRow {
  std::string label, text;
  std::string place;  // for messages: "train.tsv:3", "reviews/good/1.txt"
};

struct LabelledRows {
  std::vector<LabelledRow> rows;
  std::vector<std::string> notes;  // hints for the user
};

struct LabelledColumns {
  std::optional<std::string> label{}, text{};  // names; absent: the usual names of labels and texts
  Index max_line = Index{1} << 20;             // in bytes
};

// Reads a folder (each subfolder is a class, each .txt file in it that is not hidden a text), .jsonl or
// .ndjson (each line is an object), .csv, or any other file (each line is a label, a tab, and a text). A
// first row with a label and a text column is a header that names the columns; without it there are two
// columns, the label first. Throws UserError that names file and line for missing, empty, too long, non-UTF-8
// or malformed input.
LabelledRows read_labelled_rows(const std::string& path, const LabelledColumns& columns);

}  // namespace tandem::datasets
