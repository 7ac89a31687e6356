// Nearest-name suggestions in messages about unknown keys, names and options.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tandem {

// Edits (insertion, deletion, substitution, swap of neighbours; letter case is ignored) that turn `a` into
// `b`: the optimal string alignment distance.
int edit_distance(std::string_view a, std::string_view b);

// The name in `known` that was probably meant by `word`, in this order: equal except for case and separators;
// a synonym (core/synonyms.h); a name that contains the word between underscores; the fewest edits (the first
// on ties); containing or contained in the word. "" if nothing is similar.
std::string nearest(std::string_view word, std::span<const std::string> known);

// R"(; did you mean "adam"?)", or "" if nothing is similar: the end of an error message.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace tandem
