// The texts that a command is given to work on.
#pragma once

#include <string>
#include <vector>

namespace tandem::tasks {

// An input that names a file stands for its lines, "-" for those of standard input, any other one for itself.
// A line without a text is empty and keeps its place. Throws UserError for files that cannot be read, for
// what is no UTF-8, for an empty input, and for what looks like a path where there is no file.
std::vector<std::string> texts_of(const std::vector<std::string>& inputs);

// All of it. Throws UserError for more than a corpus may have.
std::string standard_input();

// Whether an input that names no file was meant to be one: a single word that ends as files of texts and
// tables do, or begins as paths do, or lies in a folder that exists.
bool looks_like_path(const std::string& input);

}  // namespace tandem::tasks
