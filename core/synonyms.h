// Words for the same thing: what other programs, papers and people call what has one name here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Letters and digits alone, in lower case: "Cosine-Annealing" and "cosine_annealing" are one word.
std::string squeezed(std::string_view word);

// `word` and its synonyms, squeezed, `word` first, the likeliest next.
std::vector<std::string> synonyms_of(std::string_view word);

}  // namespace tandem
