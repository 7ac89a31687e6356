// Input texts of a command.
#pragma once

#include <string>
#include <vector>

namespace tandem::tasks {

// Replaces an input that names a file by its lines, and "-" by the lines of standard input, or by all of the
// text if `whole`; other inputs are texts. Empty lines keep their place. Throws UserError for unreadable
// files, invalid UTF-8, an empty input, and for an input that looks like a missing path.
std::vector<std::string> texts_of(const std::vector<std::string>& inputs, bool whole = false);

// Reads all of it. Throws UserError beyond the maximum size of a corpus.
std::string standard_input();

// Whether an input that names no file was probably meant as a path: a single word that ends like text and
// table files, begins like a path, or names an existing folder.
bool looks_like_path(const std::string& input);

}  // namespace tandem::tasks
