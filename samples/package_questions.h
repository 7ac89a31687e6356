// Questions about Debian's packages: which of the packages that a text describes has a given title? The
// answer is the package's name.
#pragma once

#include <filesystem>

#include "data/text/questions.h"

namespace tandem::datasets {

// A context has the names and the beginnings of the long descriptions of four packages; the questions are
// their titles ("Which package is a game with cards?"), and the title of another package, which has no
// answer. Splits are by source (split_of); a split's last packages that fill no context are left out.
// Throws UserError as read_package_descriptions does, and when the training or test part is empty.
QuestionParts package_questions(const std::filesystem::path& path);
QuestionRegistry::Entry package_questions_entry();

}  // namespace tandem::datasets
