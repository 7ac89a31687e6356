// Paragraphs of a page of LibreOffice's help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::datasets {

struct HelpParagraph {
  std::string id;    // of its element: the same in every language
  std::string text;  // without markup, one space between words, none at the ends
};

// The elements p and h1 … h6 that have an id and a text, in the order of the page; of one id the first. These
// pages are what a stylesheet writes: names are in lower case, and elements of these kinds do not nest. Of a
// text that differs by system or module (a span of class "switchinline" or "switch" with hidden spans) the
// first alternative is taken that is not the Mac's. Known entities are amp, lt, gt, quot, apos, nbsp and
// numbers; others stay as they stand, and so does whatever is no markup. Any bytes are a page.
std::vector<HelpParagraph> help_paragraphs(std::string_view html);

}  // namespace tandem::datasets
