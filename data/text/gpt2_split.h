// Splitter of GPT-2 and its tokenizers: words, with the space before them, that no token crosses.
#pragma once

#include <string_view>

namespace tandem::datasets {

// The first piece of a text, "" for an empty one; the pieces of a text, one after another, are the text. A
// piece is the first of these that matches:
// - "'" and one of s, d, m, t, ll, ve, re, in lower case;
// - a run of letters, of numbers, or of characters that are neither these nor white space, each with at most
//   one space before it;
// - white space up to the last of it, which stays for the next piece unless the text ends;
// - that last character.
// A byte that is no UTF-8 counts as a character that is neither letter, number nor white space.
std::string_view first_piece(std::string_view text);

}  // namespace tandem::datasets
