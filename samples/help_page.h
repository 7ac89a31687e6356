// Parser of LibreOffice's help pages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::datasets {

struct HelpParagraph {
  std::string id;    // of the HTML element; the same in every language
  std::string text;  // without markup, one space between words, none at the ends
};

// Returns the elements p and h1 … h6 with an id and a text, in page order; the first one of a repeated id. A
// stylesheet generates these pages: names are in lower case, and these elements do not nest. Texts that
// differ by system or module (a span of class "switchinline" or "switch" with hidden spans) give the first
// alternative that is not the Mac's. The parser decodes the entities amp, lt, gt, quot, apos, nbsp and
// numbers. It keeps other entities and anything that is not markup. Any byte string is valid input.
std::vector<HelpParagraph> help_paragraphs(std::string_view html);

}  // namespace tandem::datasets
