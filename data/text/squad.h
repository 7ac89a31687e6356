// Files of SQuAD 1.1 and 2.0, and the user's own in their format:
//
//   {"data": [{"title": "…", "paragraphs": [{"context": "…", "qas": [
//     {"id": "…", "question": "…", "answers": [{"text": "…", "answer_start": 12}], "is_impossible": false}
//   ]}]}]}
//
// `answer_start` counts characters (Unicode code points). Without "is_impossible" a question has an answer.
#pragma once

#include <optional>
#include <string>

#include "data/text/questions.h"

namespace tandem::datasets {

// Throws UserError with the file, and the question or paragraph, for invalid JSON, a missing or repeated
// part, an answer that the context does not have at its place, and a file without questions. With
// `answered` false answers are not needed, and ignored.
Questions read_squad(const std::string& path, bool answered = true);

struct SquadOptions {
  std::string train;
  std::optional<std::string> test{}, validation{};
  // Shares of the training contexts, at the end, if there is no such file; test contexts last. 0: none.
  double test_fraction = 0.1, validation_fraction = 0.0;
  static const options::Schema& schema();
};

// Throws UserError as read_squad does, and when a share leaves a part empty.
QuestionParts read_squad_files(const SquadOptions& files);
QuestionRegistry::Entry squad_entry();

}  // namespace tandem::datasets
