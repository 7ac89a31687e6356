// Nearest-name suggestions for messages about unknown keys, names and options.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tandem {

// Edits (insertion, deletion, substitution, swap of neighbours; letter case is ignored) that turn `a` into
// `b`: the optimal string alignment distance.
int edit_distance(std::string_view a, std::string_view b);

// What was meant by `word` among the names in `known`: the same but for case and separators, a synonym
// (core/synonyms.h), a name of which it is a part between underscores, the one with the fewest edits, the
// first among equals; one that contains the word, or is contained in it, when none is near; "" when nothing
// resembles it.
std::string nearest(std::string_view word, std::span<const std::string> known);

// R"(; did you mean "adam"?)", or "" when nothing resembles `word`: the end of an error message.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace tandem
