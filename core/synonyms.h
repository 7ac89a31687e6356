// Synonyms of Tandem's names in other programs, papers and usage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Only letters and digits, in lower case: "Cosine-Annealing" and "cosine_annealing" become equal.
std::string squeezed(std::string_view word);

// `word` and its squeezed synonyms, `word` first, then the likeliest.
std::vector<std::string> synonyms_of(std::string_view word);

}  // namespace tandem
