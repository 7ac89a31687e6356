// Words and how Americans pronounce them: CMUDICT 0.4 as Festival has it, Debian's festlex-cmu. Of a word the
// source is its spelling, character by character, and the targets are its pronunciations, phonemes between
// spaces.
//
// The file: a first line "MNCL", then a line each, ("word" part-of-speech (((phoneme …) stress) …)), a list
// of syllables. Phonemes are the 40 of Festival's radio set (CMU's 39 in lower case, and "ax", the schwa);
// syllables and stress are not kept, so that two entries of a word that differ in nothing else are one
// pronunciation. Upper case, of words that are spelt letter by letter, stays.
#pragma once

#include <filesystem>

#include "data/text/pair_registry.h"

namespace tandem::datasets {

// Pieces of the vocabularies of the training words of Debian's file, the special ones included: 50 of its 51
// characters, and 40 phonemes.
inline constexpr Index kCmuCharacters = 52, kCmuPhonemes = 42;

std::filesystem::path installed_cmu_dictionary();

struct CmuDictionaryOptions {
  std::optional<std::string> path{};  // absent: the installed one
  static const options::Schema& schema();
};

// In the order of the file. A word is for validation, test or training by split_of, with all of its
// pronunciations. Throws UserError: the file is missing or too large, with the line one that is no UTF-8, no
// entry, or has an empty word or no phoneme, and when a part has no word.
PairTexts read_cmu_dictionary(const std::filesystem::path& path);
PairCorpusRegistry::Entry cmu_dictionary_entry();

}  // namespace tandem::datasets
